// SPDX-License-Identifier: Apache-2.0

// Package ledger knows what the log has of each object of a stream, and up to which version the log is complete. It has
// the rules by which rows, stored streams and epochs change.
package ledger
