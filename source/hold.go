// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"strconv"
	"time"
)

// caughtUpAfter is how long a reader finds nothing recorded before it goes on by itself: then it is as far as the API server, or that cannot be reached.
const caughtUpAfter = time.Second

// hold records one stream.
type hold struct {
	holds  *Holds
	stream Stream
	cancel context.CancelFunc
	// wake tells the reader that there is something for it.
	wake chan struct{}

	// history is the number of that which is recorded.
	history int

	// The mu of holds guards what follows. Everything after after, up to last, is in events, or was taken by the reader; safe is the version before last, or that of a
	// bookmark: a version is complete only when a later one was seen. Shown is the object that was shown last, not counting deletions.
	after, safe, last uint64
	shown             Ident
	events            []event
	// ended: nothing that comes after last can be recorded. taken: a reader reads it; used: it has done so, to the end. dropped: nothing is kept.
	ended, taken, used, dropped bool
}

// run records until ctx ends.
func (k *hold) run(ctx context.Context) {
	w := &wire{client: k.holds.client, stream: k.stream, observer: unobserved{}, history: noHistory{}, cancel: func() {}}
	if k.holds.watches != nil {
		w.membership = k.holds.watches.enter(k.stream, w.observer)
		defer w.membership.leave()
	}
	var retry backoff
	for again := false; ctx.Err() == nil; again = true {
		began := time.Now()
		err := k.session(ctx, w, again)
		if time.Since(began) > usefulAfter {
			retry.reset()
		}
		var rewound *RewoundError
		switch {
		case errors.As(err, &rewound):
			k.discard()
			<-ctx.Done()
		case expired(err) && k.end(ctx) != nil:
			return
		}
		_ = retry.wait(ctx, err) // ctx's end ends the loop
	}
}

// session records what one connection shows. Again says that there was one before, whose history may be another one.
func (k *hold) session(ctx context.Context, w *wire, again bool) error {
	k.holds.mu.Lock()
	last, shown := strconv.FormatUint(k.last, 10), k.shown
	k.holds.mu.Unlock()
	if again {
		if err := w.checkAgain(ctx, last, shown); err != nil {
			return err
		}
	}
	return k.follow(ctx, w)
}

// follow records what one connection shows.
func (k *hold) follow(ctx context.Context, w *wire) error {
	k.holds.mu.Lock()
	from := k.safe
	k.holds.mu.Unlock()
	timeout := watchAtLeast + rand.N(watchSpread)
	conn, cancel := context.WithTimeout(ctx, timeout+watchGrace)
	defer cancel()
	c, err := w.open(conn, strconv.FormatUint(from, 10), timeout)
	if err != nil {
		return err
	}
	defer c.close()
	for {
		f, err := c.next(conn)
		if err != nil {
			return err
		}
		if err := k.record(ctx, &f); err != nil {
			return err
		}
	}
}

// record waits for room, and keeps a frame. The error is ctx's, or says what is wrong with the frame.
func (k *hold) record(ctx context.Context, f *frame) error {
	h := k.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	size := int64(held(len(f.Object)))
	for h.bytes > 0 && h.bytes+size > h.limit && !k.dropped {
		if err := h.await(ctx); err != nil {
			return err
		}
	}
	if k.dropped {
		return context.Canceled
	}
	e, err := newEvent(f, k.stream.Namespaced)
	if err != nil {
		return err
	}
	switch {
	case e.kind == frameBookmark:
		k.safe = e.version
	case e.version != k.last:
		k.safe = k.last
	}
	k.last = e.version
	if e.kind == frameAdded || e.kind == frameModified {
		k.shown = e.identity.Ident
	}
	if e.version <= k.after {
		e.body.Release()
		return nil
	}
	if n := len(k.events); n > 0 && e.kind == frameBookmark && k.events[n-1].kind == frameBookmark {
		k.events[n-1] = e
		return nil
	}
	k.events = append(k.events, e)
	h.bytes += e.size()
	k.stir()
	return nil
}

// end says that nothing more can be recorded, and returns when the position has come so far that it can begin anew. The error is ctx's.
func (k *hold) end(ctx context.Context) error {
	h := k.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	k.ended = true
	k.stir()
	for k.after < k.last || k.taken {
		if err := h.await(ctx); err != nil {
			return err
		}
	}
	k.ended, k.safe, k.last, k.shown = false, k.after, k.after, Ident{}
	return nil
}

// discard forgets what was recorded: some of it may have been undone. Whoever reads already goes on with what it is shown.
func (k *hold) discard() {
	h := k.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	k.ended = true
	if !k.taken {
		k.dropped = true
		h.cut(k, len(k.events))
	}
	k.stir()
}

// stir tells the reader; the caller holds mu.
func (k *hold) stir() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// heldConnection is what was recorded, and is still being recorded, as a watch. When the reader has caught up, it ends with errMoved.
type heldConnection struct {
	hold   *hold
	opened time.Time
	// current is what next has returned last.
	current event
}

// next implements connection.
func (c *heldConnection) next(ctx context.Context) (frame, error) {
	c.current.body.Release()
	c.current = event{}
	quiet := time.NewTimer(caughtUpAfter)
	defer quiet.Stop()
	for {
		if ctx.Err() != nil {
			return frame{}, ctx.Err()
		}
		found, over := c.pop()
		if found {
			return frame{Type: c.current.kind, Object: c.current.body.Bytes(), shared: &c.current}, nil
		}
		if over {
			return frame{}, errMoved
		}
		select {
		case <-c.hold.wake:
		case <-quiet.C:
			if len(c.hold.wake) == 0 {
				return frame{}, errMoved
			}
		case <-ctx.Done():
		}
	}
}

// pop takes what was recorded first. Over: nothing will come any more.
func (c *heldConnection) pop() (found, over bool) {
	k, h := c.hold, c.hold.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(k.events) == 0 {
		return false, k.ended || k.dropped
	}
	c.current = k.events[0]
	c.current.body.Retain()
	h.cut(k, 1)
	return true, false
}

// since implements connection.
func (c *heldConnection) since() time.Time { return c.opened }

// close implements connection. Nothing of what is left can be read any more.
func (c *heldConnection) close() {
	c.current.body.Release()
	c.current = event{}
	h := c.hold.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	c.hold.used = true
	h.poke()
}

// unobserved is for watches that nobody is told of.
type unobserved struct{}

func (unobserved) State(State, error) {}
func (unobserved) Restarted(string)   {}

// noHistory is for streams of which nothing is published.
type noHistory struct{}

func (noHistory) Resume() (version string, known iter.Seq[Ident], ok bool) { return "", nil, false }
func (noHistory) Note(context.Context, Progress) error                     { return nil }
