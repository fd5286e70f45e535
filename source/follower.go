// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson"
)

var (
	// errMoved ends a connection whose stream is to be read by another one.
	errMoved = errors.New("the watch is shared in another way now")
	// errDetached ends a connection that holds up others.
	errDetached = errors.New("others go on without this stream, which takes nothing")
	// errUnordered ends a shared watch whose versions do not compare.
	errUnordered = rawjson.Unreadable("a resourceVersion is no number")
)

// follower is a reader's place in a shared watch; it implements connection.
type follower struct {
	watch     *sharedWatch
	member    *membership
	namespace string
	// after is the version that the reader has already.
	after uint64
	wake  chan struct{}
	// current is what next has returned last.
	current event

	// The watch's mu guards what follows. Queue[head:] waits, of bytes bytes.
	queue []event
	head  int
	bytes int64
	// fullAt is how much waited when there was no room any more, until half of that is taken; then it is 0.
	fullAt int64
	// waited is how long the watch has waited for it since nothing waited for it last.
	waited   time.Duration
	detached bool
	// passed says that the reader has checked the history, and takes what comes.
	passed bool
}

// begins reports whether the reader is shown what follows after version.
func (f *follower) begins(version uint64) bool { return f.after == version }

// pass says that the reader takes what comes from now on.
func (f *follower) pass() {
	f.watch.mu.Lock()
	defer f.watch.mu.Unlock()
	f.passed = true
}

// ready returns when the API server has answered. The error is ctx's, or why there is no watch.
func (f *follower) ready(ctx context.Context) error {
	select {
	case <-f.watch.opened:
	case <-ctx.Done():
		return ctx.Err()
	}
	f.watch.mu.Lock()
	defer f.watch.mu.Unlock()
	if f.watch.err == nil || f.head < len(f.queue) {
		return nil
	}
	return f.outcome()
}

// next implements connection.
func (f *follower) next(ctx context.Context) (frame, error) {
	f.current.body.Release()
	f.current = event{}
	for {
		if ctx.Err() != nil {
			return frame{}, ctx.Err()
		}
		found, err := f.pop()
		if err != nil {
			return frame{}, err
		}
		if found {
			return frame{
				Frame:  rawjson.Frame{Type: f.current.kind, Object: f.current.body.Bytes()},
				shared: &f.current,
			}, nil
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
			return frame{}, ctx.Err()
		}
	}
}

// pop takes what waits longest. The error is why nothing will come any more.
func (f *follower) pop() (found bool, err error) {
	s := f.watch
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case f.detached:
		return false, errDetached
	case f.head == len(f.queue) && s.err != nil:
		return false, f.outcome()
	case f.head == len(f.queue):
		return false, nil
	}
	f.current, f.queue[f.head] = f.queue[f.head], event{}
	if f.head++; f.head == len(f.queue) {
		f.queue, f.head, f.waited = f.queue[:0], 0, 0
	}
	f.account(-f.current.size())
	if f.fullAt > 0 && f.bytes <= f.fullAt/2 {
		f.fullAt = 0
		s.stir()
	}
	return true, nil
}

// push adds an event that the reader does not have; the caller holds the watch's mu.
func (f *follower) push(e event) {
	if e.version <= f.after {
		return
	}
	if f.head > len(f.queue)/2 {
		n := copy(f.queue, f.queue[f.head:])
		clear(f.queue[n:])
		f.queue, f.head = f.queue[:n], 0
	}
	e.body.Retain()
	f.queue = append(f.queue, e)
	f.account(e.size())
	w := f.watch.watches
	if f.fullAt == 0 && (f.bytes >= maxWaiting || f.bytes >= w.least() && w.held.Load() >= w.hold.Load()) {
		f.fullAt = f.bytes
	}
}

func (f *follower) account(size int64) {
	f.bytes += size
	f.watch.watches.held.Add(size)
}

// detach lets the reader go on by a watch of its own; the caller holds the watch's mu.
func (f *follower) detach() {
	f.detached = true
	f.drop()
	f.watch.remove(f)
	f.stir()
	f.member.observer.Restarted("detached") // now, as the reader may take long to see it
}

// drop forgets what waits; the caller holds the watch's mu.
func (f *follower) drop() {
	for _, e := range f.queue[f.head:] {
		e.body.Release()
	}
	f.queue, f.head = nil, 0
	f.account(-f.bytes)
}

func (f *follower) stir() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// outcome is what the watch's end means for the reader; the caller holds the watch's mu.
func (f *follower) outcome() error {
	s := f.watch
	switch {
	case errors.Is(s.err, errUnordered), apierrors.IsForbidden(s.err) && s.scope.Namespace != f.namespace:
		return errMoved
	case !expired(s.err) || s.shown || f.after == s.first:
		return s.err
	}
	// What was asked for is another's version.
	if oldest := s.oldest(s.err); f.after < oldest {
		return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", f.after, oldest))
	}
	return errMoved
}

// since implements connection.
func (f *follower) since() time.Time {
	f.watch.mu.Lock()
	defer f.watch.mu.Unlock()
	return f.watch.since
}

// close implements connection.
func (f *follower) close() {
	f.current.body.Release()
	f.current = event{}
	f.watch.watches.close(f)
}
