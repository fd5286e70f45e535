// SPDX-License-Identifier: Apache-2.0

// Package cmdutil has what commands have in common: flags for output, values that flags take, what a shell offers, and
// what a person is told of a file.
package cmdutil
