// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"
	"errors"
	"iter"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
)

// wire is the reflector's view of the API server: the first list comes from the history where that is possible, later
// ones and all items go past the reflector to the feed, and a watch never ends while it can be resumed.
//
// The reflector lists and watches in turns, never both at a time; so the fields below need no lock.
type wire struct {
	*requests
	*ending
	checker
	connector
	feed     source.Feed
	recovery Recovery
	again    <-chan source.Why
	owed     Owed

	inside occupancy
	places places
	// listing has room for one: who reads a list. The reflector does not wait for that when its context ends.
	listing chan struct{}
	// at is the version up to which the stream was shown; empty until a first list was returned. Gap is why the next
	// one is needed.
	at  string
	gap gap
	// chased counts the lists at old versions in a row from which no watch could go on.
	chased int
}

// IsWatchListSemanticsUnSupported keeps the reflector from replacing List by a watch that sends initial events,
// which would start without regard to the history.
func (w *wire) IsWatchListSemanticsUnSupported() bool { return true }

// List and Watch are never called: the reflector prefers the variants with a context.
func (w *wire) List(metav1.ListOptions) (runtime.Object, error) {
	panic("BUG: list without a context")
}

// Watch is never called; see List.
func (w *wire) Watch(metav1.ListOptions) (watch.Interface, error) {
	panic("BUG: watch without a context")
}

// WatchWithContext implements cache.ListerWatcherWithContext.
func (w *wire) WatchWithContext(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return w.resume(ctx, opts.ResourceVersion), nil
}

// ListWithContext returns a version from which a watch goes on, and nothing else: the items of a list go past the
// informer. It fails only when ctx ends.
func (w *wire) ListWithContext(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	w.listing <- struct{}{}
	defer func() { <-w.listing }()
	// Changes read before are still on their way through the informer. The items of a list must not overtake them.
	if err := w.inside.empty(ctx); err != nil {
		return nil, err
	}
	var retry kube.Backoff
	ctx, stop := w.untilEnd(ctx)
	defer stop()
	for {
		if w.refused == nil && w.ended() { // ctx may not have heard of it, and a list that begins announces itself
			return nil, w.refuse(ErrEnded)
		}
		version, err := w.begins(ctx)
		if err != nil {
			version, err = "", w.wait(ctx, &retry, err)
		} else {
			w.at = version
		}
		switch {
		case w.refused == nil && w.ended():
			return nil, w.refuse(ErrEnded) // what is listed is delivered where it is admitted
		case err != nil:
			return nil, err
		case version != "":
			return &list{ListMeta: metav1.ListMeta{ResourceVersion: version}}, nil
		}
	}
}

// begins returns the version of the history, where a watch can go on from there, else that of a list.
func (w *wire) begins(ctx context.Context) (version string, err error) {
	if w.at == "" {
		version, known, ok := w.history.Resume()
		if ok && w.owed != (Owed{}) {
			return w.listOwed(ctx, version, known)
		}
		if ok {
			return w.resumed(ctx, version, known)
		}
		if version != "" {
			if err := w.check(ctx, version, nil); err != nil {
				return "", err
			}
		}
	}
	return w.list(ctx)
}

// listOwed lists as if a watch from version had expired.
func (w *wire) listOwed(ctx context.Context, version string, known iter.Seq2[source.Ident, bool]) (string, error) {
	if err := w.check(ctx, version, known); err != nil {
		return "", err
	}
	w.at, w.gap = version, gap{why: w.owed.Why, oldest: source.Later(version, w.owed.Version), asked: w.owed.Announced}
	w.owed = Owed{}
	return w.list(ctx)
}

func (w *wire) resumed(ctx context.Context, version string, known iter.Seq2[source.Ident, bool]) (string, error) {
	if after, _ := source.Number(version); w.reserved != nil && !w.reserved.Begins(after) {
		w.unreserve()
	}
	if w.reserved == nil {
		w.reserve(version)
	}
	return version, w.check(ctx, version, known)
}

// note passes on what is noted in its place. Where that shows another history, the stream ends for good, behind
// everything that was read before.
func (w *wire) note(ctx context.Context, p source.Progress) error {
	err := w.history.Note(ctx, p)
	var rewound *source.RewoundError
	if !errors.As(err, &rewound) {
		return err
	}
	if err := w.inside.empty(ctx); err != nil {
		return err
	}
	return w.refuse(err)
}

// finish waits for a list that is still being read although its context has ended, and returns why the stream must not
// be continued.
func (w *wire) finish() error {
	w.listing <- struct{}{}
	defer func() { <-w.listing }()
	w.unreserve()
	return w.refused
}

// occupancy counts changes between the wire and the handler.
type occupancy struct {
	mu     sync.Mutex
	n      int
	waiter chan struct{}
}

func (o *occupancy) enter() {
	o.mu.Lock()
	o.n++
	o.mu.Unlock()
}

func (o *occupancy) leave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.n--; o.n == 0 && o.waiter != nil {
		close(o.waiter)
		o.waiter = nil
	}
}

// empty waits until no caller is inside, and ctx has not ended. One caller at a time.
func (o *occupancy) empty(ctx context.Context) error {
	o.mu.Lock()
	done := make(chan struct{})
	if o.n == 0 {
		close(done)
	} else {
		o.waiter = done
	}
	o.mu.Unlock()
	select {
	case <-done:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
