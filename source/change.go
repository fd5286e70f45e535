// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"iter"
	"time"
)

// Op is what happened to an object, as seen by the stream it belongs to.
type Op uint8

// The operations.
const (
	Added Op = iota + 1
	Updated
	Deleted
)

// String returns the word used for the operation in event types and metrics.
func (o Op) String() string {
	switch o {
	case Added:
		return "added"
	case Updated:
		return "updated"
	case Deleted:
		return "deleted"
	default:
		return "unknown"
	}
}

// Reason is why a change is known; it is the value of the event's reason attribute.
type Reason string

// The reasons.
const (
	ReasonWatch     Reason = "watch"
	ReasonSnapshot  Reason = "snapshot"
	ReasonRelist    Reason = "relist"
	ReasonRecovered Reason = "recovered"
	ReasonResync    Reason = "resync"
	ReasonRepair    Reason = "repair"
	// ReasonDeselected is that of the end of an object that exists and is not selected any more.
	ReasonDeselected Reason = "deselected"
)

// Ticket stands for a change between the moment it is read off the wire and the moment it needs no further care.
// The zero Ticket stands for nothing.
type Ticket uint64

// Change is one state of one object, or its end.
type Change struct {
	Op Op
	Ident
	// Body is the object as the API server sent it; nil where only the identity is known.
	// Whoever is handed a Change owns one reference.
	Body   *Body
	Reason Reason
	// Seen is when the change was read off the wire.
	Seen   time.Time
	Ticket Ticket
	// Size is what Admit was asked for: about what the change takes in memory.
	Size int
	// Count is how many changes this one stands for; 0 and 1 both mean one.
	Count int
	// Listed says that the change came with a list, or was read back from the API server's history: it has no place in
	// the order of versions, and what holds for a list's items in [Feed] holds for it.
	Listed bool
	// Epoch and Version are those of the event's sequence. The far side sets them when the change is delivered.
	Epoch, Version uint64
	// Written is when the state was written, in seconds since 1970, as it tells; 0 where it does not. The encoder finds
	// it.
	Written int64
	// Follows says that a state of the object before this one is known, and Before is when that was written, as
	// Written.
	Follows bool
	Before  int64
	// Again, if not 0, is the number of a resync or a rewind: the event is a republished one.
	Again int64
}

// Wrote reports whether this change left a time at which its state tells that it was written, in seconds since 1970: it
// is newer than that of the state before, if there is one. Some writes leave none, and an older write's time must not
// stand in for theirs.
func (c *Change) Wrote(at int64) bool {
	return c.Op != Deleted && at != 0 && (!c.Follows || c.Before != 0 && at > c.Before)
}

// Feed takes over what a stream reads, in the order in which it was read.
type Feed interface {
	// Admit waits until size more bytes may be held, and cuts the ticket of the frame at version. It is called where
	// the frame comes off the wire, so that waiting stops the reading. What is listed has no place in the order of
	// versions: its version is empty. The caller owes exactly one Deliver for each ticket, unless ctx ends. The error
	// is ctx's.
	Admit(ctx context.Context, version string, size int) (Ticket, error)
	// Deliver hands over an admitted change and its body. It never blocks.
	Deliver(c Change)
}

// History is what the far side remembers of a stream, and is told of its progress.
type History interface {
	// Resume returns the version from which a watch loses nothing, and the objects known there. ok is false
	// where there is no such version: then the stream starts with a list. A version that is returned nevertheless is
	// one that the API server has shown before, to other selectors. It may be called again when a watch has ended:
	// known are then the objects as they have been delivered, and version is at most the one that was read last. With
	// each object stands whether it is so at version: of one that the broker refuses, what was delivered may be older.
	Resume() (version string, known iter.Seq2[Ident, bool], ok bool)
	// Note records progress in its place in the stream. SnapshotStarted and Gap return only when everything before
	// them has been published and they themselves have. Recovering returns when it is safe in the checkpoint. Listed
	// returns only when the list is published and its version is safe in the checkpoint, so that nothing that a watch
	// brings from there on can be lost any more. A Bookmark never blocks. The error is ctx's, or a [RewoundError] where
	// the list shows that the API server's history is not the one that was published.
	Note(ctx context.Context, p Progress) error
}
