// SPDX-License-Identifier: Apache-2.0

// Package health is how a pipeline is doing: what fails and since when, what has happened, and what is counted.
package health
