// SPDX-License-Identifier: Apache-2.0

// Package delivery brings changes to the broker in order and within bounds: how much is read ahead, what waits and what
// is under way, which attempt follows an answer, and up to which offsets of the log all is acknowledged.
//
// # Rules that are easy to break
//
//   - An acknowledged offset is older than what is under way. An event gets its place in the log after everything
//     that was acknowledged when it was handed to the sink. So the part of the log that a new process has to read
//     begins at the offset that was acknowledged when the oldest unacknowledged event was handed over (see
//     [Offsets]).
//   - A watch is read at the broker's pace only beyond 16 MiB. Then it is read a step at a time, so that a burst
//     does not fill memory and caches while the broker keeps up. It is read until the budget is spent, because
//     history that is not read is lost.
package delivery
