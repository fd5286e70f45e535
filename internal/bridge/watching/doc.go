// SPDX-License-Identifier: Apache-2.0

// Package watching knows whether a stream watches, why it does not, and since when; it logs what is news.
package watching
