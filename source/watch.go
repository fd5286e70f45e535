// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson"
)

const (
	// usefulAfter is how long a watch must have been open to be taken for one that works.
	usefulAfter = time.Second
	// handOver is how many frames may wait for the reflector; they are in the budget already.
	handOver = 128
)

// resumedWatch is a watch that ends only with its context, or when the API server has lost the history it needs.
// Everything else (the end of a connection, a refusal, a frame cut short) is retried from where it stopped.
type resumedWatch struct {
	wire    *wire
	events  chan watch.Event
	cancel  context.CancelFunc
	running sync.WaitGroup

	// last is the version of the newest frame; safe the one before it, or of the newest bookmark: several deletions
	// can share a version (an etcd lease that expires), so a version is complete only when a later one was seen.
	last, safe string
	// shown is the object that the watch has shown last, not counting deletions. It need not be published yet.
	shown Ident
	// from is the version from which the watch began.
	from string
	// retry counts the failures since the watch last got further than before.
	retry backoff
}

func (w *wire) resume(ctx context.Context, version string) *resumedWatch {
	ctx, cancel := context.WithCancel(ctx)
	r := &resumedWatch{
		wire: w, events: make(chan watch.Event, handOver), cancel: cancel, from: version, last: version,
		safe: version,
	}
	r.running.Go(func() { r.run(ctx) })
	return r
}

// ResultChan implements watch.Interface.
func (r *resumedWatch) ResultChan() <-chan watch.Event { return r.events }

// Stop implements watch.Interface. When it returns, nothing more is read.
func (r *resumedWatch) Stop() {
	r.cancel()
	r.running.Wait()
}

func (r *resumedWatch) run(ctx context.Context) {
	defer close(r.events)
	// A connection can be cut off by itself: what was read of it is passed on in any case.
	conns, cut := context.WithCancelCause(ctx)
	var asking sync.WaitGroup
	asking.Go(func() { r.asked(conns, cut) })
	defer asking.Wait()
	defer cut(nil)
	for again := false; ctx.Err() == nil; again = true {
		err := outcome(r.session(ctx, conns, again), context.Cause(conns))
		switch {
		case err == nil:
			r.retry.reset()
			r.wire.observer.Restarted(restartReason(nil))
		case expired(err), errors.As(err, &askedError{}):
			r.expire(ctx, err)
			return
		case errors.Is(err, errDetached): // it is counted
		case errors.Is(err, errMoved):
			r.wire.observer.Restarted(restartReason(err))
		default:
			_ = r.wire.wait(conns, &r.retry, err) // ctx's end ends the loop
		}
	}
}

// expire makes the reflector list again.
func (r *resumedWatch) expire(ctx context.Context, cause error) {
	if r.last != r.from {
		r.wire.chased = 0
	}
	r.wire.at, r.wire.gap = r.safe, gap{why: whyOf(cause), read: r.last}
	switch {
	case !expired(cause):
		r.wire.gap.oldest, r.wire.gap.asked = r.last, true
	case r.wire.chased < maxChased:
		r.wire.gap.oldest = oldestWatchable(cause, r.safe)
	}
	r.wire.gap.unread = expired(cause)
	r.wire.observer.Restarted(restartReason(cause))
	r.send(ctx, watch.Event{Type: watch.Error, Object: &gone().ErrStatus})
}

// whyOf returns why a list follows a watch that cannot go on.
func whyOf(cause error) Why {
	if asked := (askedError{}); errors.As(cause, &asked) {
		return asked.Why
	}
	return Why{CauseExpired, statusMessage(cause)}
}

// session reads one connection to its end: nil if the API server ended it in good order after it had been useful.
func (r *resumedWatch) session(ctx, conns context.Context, again bool) error {
	timeout := watchTime()
	// Only the connection has a deadline: what is read is passed on however long there is no room for it.
	conn, cancel := context.WithTimeout(conns, timeout+watchGrace)
	defer cancel()
	check := func() error { return nil }
	if again {
		check = func() error { return r.check(conns) }
	}
	frames, err := r.wire.open(conn, r.safe, timeout, check)
	if err != nil {
		return fmt.Errorf("watch %s: %w", r.wire.stream.Name(), err)
	}
	defer func() { frames.close() }()
	defer r.reportWatching()()
	frames, err = r.frames(ctx, conns, frames)
	if _, own := frames.(*ownConnection); own {
		err = overdue(conn, err)
	}
	lasted := time.Since(frames.since())
	if errors.Is(err, io.EOF) && lasted > usefulAfter {
		return nil
	}
	if lasted > lastDelay {
		r.retry.reset()
	}
	return fmt.Errorf("watch %s: %w", r.wire.stream.Name(), err)
}

// check makes sure that the API server knows the version, before anything of a watch that begins there again is passed
// on: one that was restored from a backup meanwhile would accept it, and be silent.
func (r *resumedWatch) check(ctx context.Context) error {
	// That may be the end of the stream, which must not overtake what was read before.
	if err := r.wire.inside.empty(ctx); err != nil {
		return err
	}
	return r.wire.checkAgain(ctx, r.last, r.shown)
}

// reportWatching reports that the watch is open; after a failure only if it stays open for a while, since a watch that
// fails at once, again and again, is none. It returns how to end that.
func (r *resumedWatch) reportWatching() (stop func()) {
	if r.retry.failures == 0 {
		r.wire.observer.State(Watching, nil)
		return func() {}
	}
	reported := make(chan struct{})
	report := time.AfterFunc(usefulAfter, func() {
		defer close(reported)
		r.wire.observer.State(Watching, nil)
	})
	return func() {
		if !report.Stop() {
			<-reported
		}
	}
}

// progressed takes note that the watch got further than before: earlier failures do not count any more.
func (r *resumedWatch) progressed() {
	if r.retry.failures > 0 {
		r.retry.reset()
		r.wire.observer.State(Watching, nil)
	}
}

// frames passes on all frames, and changes over to a shared watch when it can. It returns what it has read last, and
// the error io.EOF where that ended between two frames.
func (r *resumedWatch) frames(ctx, conns context.Context, from connection) (connection, error) {
	for {
		f, err := from.next(conns)
		if err != nil {
			return from, err
		}
		if err := r.frame(ctx, &f); err != nil {
			return from, err
		}
		if shared := r.wire.share(from, r.safe, f.Type == rawjson.Bookmark); shared != nil {
			// The shared one may have begun after the history ended that the own one still shows.
			if err := r.check(conns); err != nil {
				shared.close()
				return from, err
			}
			shared.pass()
			from.close()
			from = shared
		}
	}
}

func (r *resumedWatch) frame(ctx context.Context, f *frame) error {
	switch f.Type {
	case rawjson.Bookmark:
		version, err := f.version()
		if err != nil {
			return err
		}
		if version != r.last {
			r.progressed()
		}
		r.last, r.safe = version, version
		return r.wire.note(ctx, Progress{Kind: Bookmark, Version: version, Seen: time.Now()})
	case rawjson.Error:
		return &apierrors.StatusError{ErrStatus: *rawjson.ParseStatus(f.Object)}
	case rawjson.Added:
		return r.object(ctx, f, Added, watch.Added)
	case rawjson.Modified:
		return r.object(ctx, f, Updated, watch.Modified)
	case rawjson.Deleted:
		return r.object(ctx, f, Deleted, watch.Deleted)
	default:
		return fmt.Errorf("frame of unknown type %d", f.Type)
	}
}

// object buys room for one object, copies it off the wire and passes it to the reflector.
func (r *resumedWatch) object(ctx context.Context, f *frame, op Op, kind watch.EventType) error {
	id, err := f.identity(r.wire.stream.Namespaced)
	if err != nil {
		return err
	}
	size := held(len(f.Object))
	ticket, err := r.wire.feed.Admit(ctx, id.ResourceVersion, size)
	if err != nil {
		return err
	}
	if id.ResourceVersion != r.last {
		r.safe, r.last = r.last, id.ResourceVersion
		r.progressed()
	}
	if op != Deleted {
		r.shown = id.Ident
	}
	r.wire.inside.enter()
	r.send(ctx, watch.Event{Type: kind, Object: &object{Identity: id, change: &Change{
		Op: op, Ident: id.Ident, Body: f.body(), Reason: ReasonWatch, Seen: time.Now(), Ticket: ticket, Size: size,
	}}})
	return nil
}

func (r *resumedWatch) send(ctx context.Context, e watch.Event) {
	select {
	case r.events <- e:
	case <-ctx.Done():
	}
}

func gone() *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired,
		Message: "the history after the last version is gone",
	}}
}

// outcome returns why a connection ended that may have been cut off: because a list was asked for, unless the API
// server has said which versions it has no more.
func outcome(err, cut error) error {
	if asked := (askedError{}); !expired(err) && errors.As(cut, &asked) {
		return asked
	}
	return err
}

// asked cuts the watch off when a list is asked for, or the stream is to end, which the list that follows sees. It
// returns when conns ends.
func (r *resumedWatch) asked(conns context.Context, cut context.CancelCauseFunc) {
	select {
	case why, ok := <-r.wire.again:
		if ok {
			cut(askedError{why})
		}
	case <-r.wire.end:
		cut(askedError{Why{Message: ErrEnded.Error()}})
	case <-conns.Done():
	}
	<-conns.Done()
}
