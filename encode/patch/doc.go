// SPDX-License-Identifier: Apache-2.0

// Package patch makes merge patches (RFC 7386) and JSON patches (RFC 6902) of two objects, without decoding them.
package patch
