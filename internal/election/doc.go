// SPDX-License-Identifier: Apache-2.0

// Package election lets one of several processes work at a time: the one that holds a Lease of the API server.
//
// A Lease is a promise about time, and clocks and processes stop. So what works under one has to be fenced by what it
// writes to as well; what this package promises is that a process which runs ends its work before another one can
// begin.
package election
