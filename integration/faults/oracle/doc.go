// SPDX-License-Identifier: Apache-2.0

// Package oracle decides whether a log keeps the promises of the bridge.
//
// It has two halves that know nothing of each other's sources. A [Recorder] reads the true history of objects from
// etcd. Etcd has every revision, also where the API server's watches have forgotten some. [Check] compares a truth with
// the log as it was read back from the broker. Check is pure, so a truth or a log can as well be made by hand. It
// shares no code with the bridge, so that no mistake is made twice. What is checked is the final log of one pipeline,
// when nothing is under way any more.
//
// A log may have several partitions. Then each event has to be in the one of its key, markers in all of them, and what
// a process wrote behind its own announcement and before that of the next one. Two events that different partitions
// have between two markers have no order, and nothing depends on it.
//
// Epochs are matched with what happened to etcd. A gap that tells of a restoration begins an era: versions compare
// within it, and everything that exists is published again. A lost log begins one as well. Other epochs go on with the
// versions that were before, and repeat nothing.
//
// The promises, by the names that a [Violation] carries:
//
//	P1  the last entry of each object is its last state; of one that is gone it is a deletion
//	P2  an object that the log had alive and that is gone has a deletion; a new owner of a name comes behind the old
//	    one's deletion
//	P3  every state is in the log, unless the first snapshot or a gap passed over it; nothing is called added that the
//	    log had, or updated that it had not; what is folded says of how many changes it is
//	P4  the sequence of an object rises; each state did exist, with this content; each entry is of this pipeline, of a
//	    known type, and stands under its subject and key; a deletion that was found missing has the last version in the
//	    log, and in its sequence the version of the list
//	P5  no id twice, no state twice; sequence and id have the documented form and say the same; with leaders, none
//	    behind a later one, but for what a former one may still publish
//	P6  what is missing lies in the range of a gap that is well-formed, stands where it belongs, begins where the log
//	    ended, and is justified; an epoch begins with a marker that says why; a complete resync has told everything
//	P7  the buffer and the process's memory stay under their limits
//	P8  nothing contains a piece of a secret value
//	P9  consumers that go by one comparison end with what exists: from the beginning, from a place on, and with messages
//	    that come again
package oracle
