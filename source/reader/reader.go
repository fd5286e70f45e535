// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"
	"errors"

	"k8s.io/client-go/tools/cache"

	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
	"github.com/kube-eventbridge/kube-eventbridge/source/sharing"
)

// Reader reads one stream.
type Reader struct {
	Client   *kube.Client
	Stream   source.Stream
	Feed     source.Feed
	History  source.History
	Observer source.Observer
	// Watches are those that the reader shares with others; nil: its watch is its own.
	Watches *sharing.Watches
	// Recovery bounds what is read back where a watch cannot go on; the zero Recovery turns that off.
	Recovery Recovery
	// Reached, if not nil, returns the newest version of what was published, which may be ahead of the position that
	// [source.History] has. An API server that is older is another one. It is empty where nothing compares.
	Reached func() string
	// Owed is a list that an earlier Run has not come to the end of.
	Owed Owed
	// Again, when a reason is received from it, makes the stream list again behind a [source.Gap] with that reason, at
	// exactly the version that the watch has shown last, and watch on from there: no change is passed over. Only where
	// the API server cannot list there any more, or the watch has expired in that moment, it goes on as for a watch that
	// has expired. It is received from while a watch runs or is tried again, not while the stream lists. Nil never asks
	// for a list.
	Again <-chan source.Why
	// End, when it is closed, makes Run return ErrEnded as soon as all that was admitted has been delivered; what is
	// being listed is left as it is. Nil never does.
	End <-chan struct{}
}

// ErrEnded says that a [Reader] has ended because it was asked to.
var ErrEnded = errors.New("the stream was ended")

// Owed is a list at Version or later that has to be made before a watch goes on at the position that [source.History]
// has: what an earlier Run noted as Recovering or Gap may have been published in part. The zero Owed is none.
type Owed struct {
	Version string
	source.Why
	// Announced says that the Gap was noted: nothing is read back any more.
	Announced bool
}

// Run reads until ctx ends, and returns nil then: what was admitted has been delivered, or is read again by the next
// Run, because its ticket is never settled. Feed, History and Observer are not used any more when Run returns. It
// returns an error only for a history that must not be continued, which is a [source.RewoundError], as such or
// wrapped, and [ErrEnded]: then everything that was admitted has been delivered. Where [source.History] returns one,
// Run asks for nothing more. Everything else that fails is retried, less and less often, without end. So is what cannot
// be read, or lacks a name, a uid or a resourceVersion: it is never passed over.
func (r *Reader) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := r.wire(cancel)
	if r.Watches != nil {
		w.membership = r.Watches.Enter(r.Stream, r.Observer)
		defer w.membership.Leave()
	}
	informer := cache.NewSharedIndexInformerWithOptions(w, &object{}, cache.SharedIndexInformerOptions{
		ObjectDescription: r.Stream.Name(),
	})
	if _, err := informer.AddEventHandler(&handler{feed: r.Feed, inside: &w.inside}); err != nil {
		return err
	}
	// What fails is told to the observer, and what ends a stream is returned.
	if err := informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}); err != nil {
		return err
	}
	informer.RunWithContext(ctx)
	return w.finish()
}

// wire returns what the informer reads from; cancel ends it.
func (r *Reader) wire(cancel context.CancelFunc) *wire {
	requests := &requests{client: r.Client, stream: r.Stream, observer: r.Observer}
	ending := &ending{end: r.End, cancel: cancel}
	return &wire{
		requests: requests, ending: ending,
		checker:   checker{requests: requests, ending: ending, history: r.History, reached: r.Reached},
		connector: connector{requests: requests},
		feed:      r.Feed, recovery: r.Recovery, again: r.Again, owed: r.Owed,
		listing: make(chan struct{}, 1),
	}
}

// handler passes on what came by a watch. What a list had has been delivered by the list itself. What the informer
// concludes from the list that it was given, which is empty, is ignored.
type handler struct {
	feed   source.Feed
	inside *occupancy
}

// OnAdd implements cache.ResourceEventHandler.
func (h *handler) OnAdd(obj any, _ bool) { h.pass(obj) }

// OnUpdate implements cache.ResourceEventHandler.
func (h *handler) OnUpdate(_, obj any) { h.pass(obj) }

// OnDelete implements cache.ResourceEventHandler. A tombstone (an object missing from a list) is no *object.
func (h *handler) OnDelete(obj any) { h.pass(obj) }

func (h *handler) pass(obj any) {
	o, ok := obj.(*object)
	if !ok {
		return
	}
	if c := o.take(); c != nil {
		h.feed.Deliver(*c)
		h.inside.leave()
	}
}
