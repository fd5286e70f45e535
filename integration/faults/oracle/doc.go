// SPDX-License-Identifier: Apache-2.0

// Package oracle decides whether a log keeps the promises of the bridge.
//
// It has two halves that know nothing of each other's sources. A [Recorder] reads the true history of objects from etcd, which has every
// revision, also where the API server's watches have forgotten some. [Check] compares a truth with the log as it was read back from the
// broker; it is pure, so a truth or a log can as well be made by hand, and it shares no code with the bridge, so that no mistake is made
// twice. What is checked is the final log of one pipeline, when nothing is under way any more.
//
// A log may have several partitions: then each event has to be in the one of its key, markers in all of them, and what a process wrote behind its
// own announcement and before that of the next one. Of two events that different partitions have between two markers nobody can say which came first, and nothing
// depends on it.
//
// The promises, by the names that a [Violation] carries:
//
//	P1  the last entry of each object is its last state; of one that is gone it is a deletion
//	P2  an object that the log had alive and that is gone has a deletion; a new owner of a name comes behind the old one's deletion
//	P3  every state is in the log, unless the first snapshot or a gap passed over it; nothing is called added that the log had, or updated
//	    that it had not; what is folded says of how many changes it is
//	P4  the states of an object stand in their true order, and each did exist, with this content; each entry is of this
//	    pipeline, of a known type, and stands under its subject and key; a deletion that was found missing has the last
//	    version in the log
//	P5  no id twice, no state twice, and ids have the documented form; with leaders, none behind a later one, but for what a former one may still publish
//	P6  what is missing lies in the range of a gap that is well-formed, stands where it belongs, begins where the log
//	    ended, and is justified
//	P7  the buffer and the process's memory stay under their limits
//	P8  nothing contains a piece of a secret value
package oracle
