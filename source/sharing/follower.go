// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson"
)

var (
	// ErrMoved ends a connection whose stream is to be read by another one.
	ErrMoved = errors.New("the watch is shared in another way now")
	// ErrDetached ends a connection that holds up others.
	ErrDetached = errors.New("others go on without this stream, which takes nothing")
	// errUnordered ends a shared watch whose versions do not compare.
	errUnordered = rawjson.Unreadable("a resourceVersion is no number")
)

// Follower is a reader's place in a shared watch. It is for one goroutine, and is to be closed.
type Follower struct {
	watch     *sharedWatch
	member    *Membership
	namespace string
	// after is the version that the reader has already.
	after uint64
	wake  chan struct{}
	// current is what Next has returned last.
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

// Begins reports whether the reader is shown what follows after version, and nothing before.
func (f *Follower) Begins(version uint64) bool { return f.after == version }

// Pass says that the reader takes what comes from now on.
func (f *Follower) Pass() {
	f.watch.mu.Lock()
	defer f.watch.mu.Unlock()
	f.passed = true
}

// Ready returns when the API server has answered. The error is ctx's, or says why there is no watch: [ErrMoved], or the
// API server's own.
func (f *Follower) Ready(ctx context.Context) error {
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

// Next returns what the watch brings next, valid until the following call. The error is io.EOF where the API server
// ended the watch in good order, ctx's, [ErrMoved], [ErrDetached], or says what broke it; it is the same from then on.
func (f *Follower) Next(ctx context.Context) (Frame, error) {
	f.current.body.Release()
	f.current = event{}
	for {
		if ctx.Err() != nil {
			return Frame{}, ctx.Err()
		}
		found, err := f.pop()
		if err != nil {
			return Frame{}, err
		}
		if found {
			return Frame{
				Frame:  rawjson.Frame{Type: f.current.kind, Object: f.current.body.Bytes()},
				shared: &f.current,
			}, nil
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
			return Frame{}, ctx.Err()
		}
	}
}

// pop takes what waits longest. The error is why nothing will come any more.
func (f *Follower) pop() (found bool, err error) {
	s := f.watch
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case f.detached:
		return false, ErrDetached
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
func (f *Follower) push(e event) {
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

func (f *Follower) account(size int64) {
	f.bytes += size
	f.watch.watches.held.Add(size)
}

// detach lets the reader go on by a watch of its own; the caller holds the watch's mu.
func (f *Follower) detach() {
	f.detached = true
	f.drop()
	f.watch.remove(f)
	f.stir()
	f.member.observer.Restarted("detached") // now, as the reader may take long to see it
}

// drop forgets what waits; the caller holds the watch's mu.
func (f *Follower) drop() {
	for _, e := range f.queue[f.head:] {
		e.body.Release()
	}
	f.queue, f.head = nil, 0
	f.account(-f.bytes)
}

func (f *Follower) stir() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// outcome is what the watch's end means for the reader; the caller holds the watch's mu.
func (f *Follower) outcome() error {
	s := f.watch
	switch {
	case errors.Is(s.err, errUnordered), apierrors.IsForbidden(s.err) && s.scope.Namespace != f.namespace:
		return ErrMoved
	case !kube.Expired(s.err) || s.shown || f.after == s.first:
		return s.err
	}
	// What was asked for is another's version.
	if oldest := s.oldest(s.err); f.after < oldest {
		return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", f.after, oldest))
	}
	return ErrMoved
}

// Since returns when the API server began to answer.
func (f *Follower) Since() time.Time {
	f.watch.mu.Lock()
	defer f.watch.mu.Unlock()
	return f.watch.since
}

// Close gives up the place. It waits for the end of the watch if no other reader follows it.
func (f *Follower) Close() {
	f.current.body.Release()
	f.current = event{}
	f.watch.watches.close(f)
}
