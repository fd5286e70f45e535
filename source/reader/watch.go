// SPDX-License-Identifier: Apache-2.0

package reader

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

	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson"
	"github.com/kube-eventbridge/kube-eventbridge/source/sharing"
)

const (
	// usefulAfter is how long a watch must have been open to be taken for one that works.
	usefulAfter = time.Second
	// handOver is how many frames may wait for the reflector; they are in the budget already. Each stream has room for
	// them, which counts where there are thousands.
	handOver = 16
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
	shown source.Ident
	// from is the version from which the watch began.
	from string
	// retry counts the failures since the watch last got further than before.
	retry kube.Backoff
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
			r.retry.Reset()
			r.wire.observer.Restarted(restartReason(nil))
		case kube.Expired(err), errors.As(err, &askedError{}):
			r.expire(ctx, err)
			return
		case errors.Is(err, sharing.ErrDetached): // it is counted
		case errors.Is(err, sharing.ErrMoved):
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
	case !kube.Expired(cause):
		r.wire.gap.oldest, r.wire.gap.asked = r.last, true
	case r.wire.chased < maxChased:
		r.wire.gap.oldest = kube.OldestWatchable(cause, r.safe)
	}
	r.wire.gap.unread = kube.Expired(cause)
	r.wire.observer.Restarted(restartReason(cause))
	r.send(ctx, watch.Event{Type: watch.Error, Object: &gone().ErrStatus})
}

// whyOf returns why a list follows a watch that cannot go on.
func whyOf(cause error) source.Why {
	if asked := (askedError{}); errors.As(cause, &asked) {
		return asked.Why
	}
	return source.Why{Cause: source.CauseExpired, Message: kube.StatusMessage(cause)}
}

// session reads one connection to its end: nil if the API server ended it in good order after it had been useful.
func (r *resumedWatch) session(ctx, conns context.Context, again bool) error {
	timeout := kube.WatchTime()
	// Only the connection has a deadline: what is read is passed on however long there is no room for it.
	conn, cancel := context.WithTimeout(conns, timeout+kube.WatchGrace)
	defer cancel()
	check := func() error { return nil }
	if again {
		check = func() error { return r.check(conns) }
	}
	frames, err := r.wire.open(conn, r.safe, timeout, check)
	if err != nil {
		return fmt.Errorf("watch %s: %w", r.wire.stream.Name(), err)
	}
	defer func() { frames.Close() }()
	defer r.reportWatching()()
	frames, err = r.frames(ctx, conns, frames)
	if _, own := frames.(*ownConnection); own {
		err = kube.Overdue(conn, err)
	}
	lasted := time.Since(frames.Since())
	if errors.Is(err, io.EOF) && lasted > usefulAfter {
		return nil
	}
	if lasted > kube.LastDelay {
		r.retry.Reset()
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
	if r.retry.Failures == 0 {
		r.wire.observer.State(source.Watching, nil)
		return func() {}
	}
	reported := make(chan struct{})
	report := time.AfterFunc(usefulAfter, func() {
		defer close(reported)
		r.wire.observer.State(source.Watching, nil)
	})
	return func() {
		if !report.Stop() {
			<-reported
		}
	}
}

// progressed takes note that the watch got further than before: earlier failures do not count any more.
func (r *resumedWatch) progressed() {
	if r.retry.Failures > 0 {
		r.retry.Reset()
		r.wire.observer.State(source.Watching, nil)
	}
}

// frames passes on all frames, and changes over to a shared watch when it can. It returns what it has read last, and
// the error io.EOF where that ended between two frames.
func (r *resumedWatch) frames(ctx, conns context.Context, from connection) (connection, error) {
	for {
		f, err := from.Next(conns)
		if err != nil {
			return from, err
		}
		if err := r.frame(ctx, &f); err != nil {
			return from, err
		}
		if shared := r.wire.share(from, r.safe, f.Type == rawjson.Bookmark); shared != nil {
			// The shared one may have begun after the history ended that the own one still shows.
			if err := r.check(conns); err != nil {
				shared.Close()
				return from, err
			}
			shared.Pass()
			from.Close()
			from = shared
		}
	}
}

func (r *resumedWatch) frame(ctx context.Context, f *sharing.Frame) error {
	switch f.Type {
	case rawjson.Bookmark:
		version, err := f.Version()
		if err != nil {
			return err
		}
		if version != r.last {
			r.progressed()
		}
		r.last, r.safe = version, version
		return r.wire.note(ctx, source.Progress{Kind: source.Bookmark, Version: version, Seen: time.Now()})
	case rawjson.Error:
		return &apierrors.StatusError{ErrStatus: *rawjson.ParseStatus(f.Object)}
	case rawjson.Added:
		return r.object(ctx, f, source.Added, watch.Added)
	case rawjson.Modified:
		return r.object(ctx, f, source.Updated, watch.Modified)
	case rawjson.Deleted:
		return r.object(ctx, f, source.Deleted, watch.Deleted)
	default:
		return fmt.Errorf("frame of unknown type %d", f.Type)
	}
}

// object buys room for one object, copies it off the wire and passes it to the reflector.
func (r *resumedWatch) object(ctx context.Context, f *sharing.Frame, op source.Op, kind watch.EventType) error {
	id, err := f.Identity(r.wire.stream.Namespaced)
	if err != nil {
		return err
	}
	size := source.ChangeSize(len(f.Object))
	ticket, err := r.wire.feed.Admit(ctx, id.ResourceVersion, size)
	if err != nil {
		return err
	}
	if id.ResourceVersion != r.last {
		r.safe, r.last = r.last, id.ResourceVersion
		r.progressed()
	}
	if op != source.Deleted {
		r.shown = id
	}
	r.wire.inside.enter()
	change := &source.Change{
		Op: op, Ident: id, Body: f.Body(), Reason: source.ReasonWatch, Seen: time.Now(), Ticket: ticket, Size: size,
	}
	r.send(ctx, watch.Event{Type: kind, Object: &object{
		place: r.wire.places.next(), version: id.ResourceVersion, change: change,
	}})
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
	if asked := (askedError{}); !kube.Expired(err) && errors.As(cut, &asked) {
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
		cut(askedError{source.Why{Message: ErrEnded.Error()}})
	case <-conns.Done():
	}
	<-conns.Done()
}
