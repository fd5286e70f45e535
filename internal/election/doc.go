// SPDX-License-Identifier: Apache-2.0

// Package election lets one of several processes work at a time: the one that holds a Lease of the API server.
//
// A Lease is a promise about time, and clocks and processes stop. So what works under one has to be fenced by what it
// writes to as well; what this package promises is that a process which runs ends its work before another one can
// begin.
//
// A leader gives up before its Lease expires. A timer of its own ends the term one renew deadline after the beginning
// of the last renewal that succeeded, whatever requests are under way. The work then ends as in a crash: without
// draining, and without a commit.
package election
