// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Tracker computes the position of one stream from what is opened in the stream's order and settled in any order.
//
// The position is the greatest version v for which everything opened up to v is settled and the stream has shown
// that v is complete: by a greater version or by a bookmark. Several changes can carry the same version, so v alone
// does not show that.
//
// A watch that starts at the position therefore shows every change again that is not settled, provided that it was
// opened with a version after the position of that moment. A stream may go back, because its watch was resumed at
// an older version; then what it shows from there on counts anew. The position itself never goes back except by
// [Tracker.Reset].
//
// Versions that are not numbers have no order; then the order of the stream is theirs.
//
// All methods may be called concurrently. Those that follow the stream's order (Open, OpenBarrier, Bookmark, Reset)
// have that order only if one goroutine at a time calls them.
type Tracker struct {
	mu       sync.Mutex
	position string
	// shown is the greatest version of the stream so far, shownBy the last open ticket that belongs to it or before it.
	// That this was the end of it shows when a greater version follows, unless a bookmark said so.
	shown      string
	shownBy    place
	bookmarked bool
	// entries are the open tickets, linked in the stream's order, and free places, linked from the first of them. The
	// entry at the origin is none: it links the oldest (next) and the newest (prev).
	entries []entry
	free    place
	pending int
	cut     uint32
}

// place is an index of entries.
type place uint32

// origin is where the order of open tickets begins: what is complete there is complete.
const origin place = 0

// entry stands for an open ticket. What is settled takes no room, however long a ticket before it is open: the position
// that it stood for is handed to the one before it.
type entry struct {
	// safe is the version that is complete once this ticket and all before it are settled; often empty.
	safe string
	// opened is in nanoseconds since 1970.
	opened int64
	// ready is what a barrier calls in its turn.
	ready      func()
	prev, next place
	// cut tells the ticket from others that had its place; 0 in a free place.
	cut uint32
}

// Room for more entries than this is given up when none is open.
const keepEntries = 4096

// NewTracker returns a tracker of a stream that continues at position, which is empty if there is none yet.
func NewTracker(position string) *Tracker {
	return &Tracker{position: position, shown: position, entries: make([]entry, 1)}
}

// Open cuts the ticket of a change that the stream shows at version; it is never 0, and is to be settled
// exactly once. Items of a list have no place in the order of versions: their version is empty, and never becomes
// the position.
func (t *Tracker) Open(version string, now time.Time) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	ticket := t.push(now)
	if version == "" {
		return ticket
	}
	t.show(version, t.newest())
	if t.bookmarked {
		// The version was said to be complete, and is only with this ticket.
		t.goBack(version)
		t.bookmarked = false
	}
	return ticket
}

// OpenBarrier cuts a ticket whose turn comes when everything opened before it is settled: then ready is called, once,
// by the goroutine that settled the last of it, or before OpenBarrier returns if nothing is open. Until the ticket
// itself is settled the position does not pass it, and the turn of no later barrier comes.
//
// What has to stand in the log after all that came before, and before all that follows, is published in ready, and
// the ticket settled when it is acknowledged. Ready may call the tracker; it must not block. If the ticket is settled
// before its turn, ready is never called.
func (t *Tracker) OpenBarrier(now time.Time, ready func()) uint64 {
	t.mu.Lock()
	ticket := t.push(now)
	if t.oldest() != t.newest() {
		t.entries[t.newest()].ready, ready = ready, nil
	}
	t.mu.Unlock()
	if ready != nil {
		ready()
	}
	return ticket
}

// Await waits until everything that was opened before the call is settled. The error is ctx's.
func (t *Tracker) Await(ctx context.Context) error {
	turn := make(chan struct{})
	ticket := t.OpenBarrier(time.Now(), func() { close(turn) })
	defer t.Settle(ticket)
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Settle records that the ticket's change needs no further care. It panics if the ticket is not open.
func (t *Tracker) Settle(ticket uint64) {
	if ready := t.settle(ticket); ready != nil {
		ready()
	}
}

// Bookmark records that the stream has shown everything up to version. The position becomes version as soon as
// everything opened so far is settled. A version before one already shown says nothing new.
func (t *Tracker) Bookmark(version string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if version == "" || version != t.shown && !later(version, t.shown) {
		return
	}
	t.show(version, t.newest())
	t.complete(version, t.newest())
	t.bookmarked = true
}

// Reset starts another history: the position becomes version at once, and what was shown before never becomes the
// position. Open tickets stay open and are to be settled; before them the position does not move again.
//
// A stream whose history was lost is reset to the empty version, so that a crash before the end of the list that
// follows starts with a list.
func (t *Tracker) Reset(version string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.position, t.shown, t.shownBy, t.bookmarked = version, version, origin, false
	for at := t.oldest(); at != origin; at = t.entries[at].next {
		t.entries[at].safe = ""
	}
}

// Position returns the version from which a watch loses nothing; empty if there is none yet.
func (t *Tracker) Position() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.position
}

// Oldest returns when the oldest ticket not settled was opened; false if all are settled.
func (t *Tracker) Oldest() (time.Time, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pending == 0 {
		return time.Time{}, false
	}
	return time.Unix(0, t.entries[t.oldest()].opened), true
}

// Pending returns the number of tickets not settled.
func (t *Tracker) Pending() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pending
}

func (t *Tracker) oldest() place { return t.entries[origin].next }
func (t *Tracker) newest() place { return t.entries[origin].prev }

// push opens a ticket behind all others.
func (t *Tracker) push(now time.Time) uint64 {
	at := t.free
	if at != origin {
		t.free = t.entries[at].next
	} else {
		at = place(len(t.entries))
		t.entries = append(t.entries, entry{})
	}
	if t.cut++; t.cut == 0 {
		t.cut = 1
	}
	before := t.newest()
	t.entries[at] = entry{opened: now.UnixNano(), cut: t.cut, prev: before}
	t.entries[before].next, t.entries[origin].prev = at, at
	t.pending++
	return uint64(t.cut)<<32 | uint64(at)
}

// show takes note that everything shown of version so far has tickets up to the one at the given place.
func (t *Tracker) show(version string, at place) {
	if version != t.shown {
		if later(version, t.shown) {
			t.complete(t.shown, t.shownBy)
		} else {
			t.goBack(version)
		}
		t.bookmarked = false
	}
	t.shown, t.shownBy = version, at
}

// complete makes version the position once everything up to the given place is settled.
func (t *Tracker) complete(version string, at place) {
	switch {
	case version == "":
	case at == origin:
		t.advance(version)
	default:
		t.entries[at].safe = version
	}
}

// goBack forgets that version and what is after it was complete: it is being shown again, and what is open
// of it now comes after the entries that would have made it the position.
func (t *Tracker) goBack(version string) {
	for at := t.oldest(); at != origin; at = t.entries[at].next {
		if e := &t.entries[at]; e.safe != "" && !later(version, e.safe) {
			e.safe = ""
		}
	}
}

// advance moves the position to version, never back.
func (t *Tracker) advance(version string) {
	if t.position == "" || later(version, t.position) {
		t.position = version
	}
}

// settle returns what is to be called without the lock, if anything.
func (t *Tracker) settle(ticket uint64) (ready func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := place(ticket)
	if at == origin || uint64(at) >= uint64(len(t.entries)) || t.entries[at].cut != uint32(ticket>>32) {
		panic(fmt.Sprintf("BUG: ticket %#x settled, which is not open", ticket))
	}
	before := t.remove(at)
	if before != origin || t.pending == 0 {
		return nil
	}
	first := &t.entries[t.oldest()]
	ready, first.ready = first.ready, nil
	return ready
}

// remove takes an entry out of the order and returns the place before it, which stands for what it stood for.
func (t *Tracker) remove(at place) (before place) {
	e := t.entries[at]
	t.entries[e.prev].next, t.entries[e.next].prev = e.next, e.prev
	t.entries[at] = entry{next: t.free}
	t.free = at
	t.pending--
	if t.shownBy == at {
		t.shownBy = e.prev
	}
	t.complete(e.safe, e.prev)
	if t.pending == 0 && len(t.entries) > keepEntries {
		t.entries, t.free = make([]entry, 1), origin
	}
	return e.prev
}
