// SPDX-License-Identifier: Apache-2.0

// Package ledger knows what the log has of each object of a stream, and up to which version the log is complete. It has
// the rules by which rows, stored streams and epochs change.
//
// # Rules that are easy to break
//
//   - The row of a deleted object stays until the position has passed it. Otherwise an update that is shown again
//     would bring the object back. The watch after a list begins when all of the list is in the log, so nothing can
//     come that is older than what the list found missing.
//   - A row moves and its ticket is settled under one lock, which a commit takes as well. Rows ahead of the position
//     cost a repetition that is dropped. Rows behind it would cost an event.
//   - After a rewind an object's events may be older than its row, and the row stays. It then notes that the log has
//     an older state last (Row.Behind). If the history breaks off, the list publishes the row's state of these
//     objects again.
//   - An epoch is committed before an event carries it. Otherwise a crash would give it out twice.
//   - A row is not confirmed by an event that the broker recognised as a repetition. The next event of the object is
//     checked again, because brokers forget ids and not places in the log.
//   - The row of a change that a filter leaves out moves, and keeps the place of the object's last event. A filter
//     that let a change through is not asked again, whatever the log turns out to have.
package ledger
