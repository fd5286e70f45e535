// SPDX-License-Identifier: Apache-2.0

// Package bridge moves changes from streams to a sink and remembers what arrived: watch, queue, encode, publish,
// remember.
//
// Three rules carry the promises. An object has at most one unacknowledged message, so that no retry can change
// the order of its states. A stream's position moves only past tickets that are settled, so that a crash can repeat
// work but not skip it. And a change is published only if it is newer than what the ledger, or the queue, has of its
// object, so that what is repeated stays out of the log.
package bridge
