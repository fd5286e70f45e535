// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/delivery"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/previous"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/refused"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/spec"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// logEvery is how often a stream logs what may be true of each of its events; the metrics count them all.
const logEvery = 10 * time.Second

// Opening is what a stream begins with: what the store and the log have of it, and what counts it.
type Opening struct {
	Saved checkpoint.Stream
	// Known: the store knows the stream.
	Known bool
	Rows  map[string]checkpoint.Row
	// Resyncs: a resync is due, because the log may lack the last event of an object.
	Resyncs bool
	// Entered is the version of its namespace at which a selector takes the stream now.
	Entered string
	// Previous are the objects' previous states; nil where nothing needs them.
	Previous  *previous.Objects
	Metrics   *health.Stream
	Incidents *health.StreamIncidents
}

// openStream makes a stream. It does nothing until begin and read.
func openStream(env *Environment, of *spec.Stream, at source.Stream, o Opening) *stream {
	s := &stream{
		identity: identity{Stream: at, name: at.Name(), spec: of, encoder: of.Encoder(at)},
		account:  delivery.Account{Name: at.Name(), Metrics: o.Metrics, Incidents: o.Incidents, Latest: of.Latest},
		state: state{
			tracker: ledger.NewTracker(o.Saved.Position), ledger: ledger.New(o.Rows, env.Budget.Hold),
			pending: map[string]*delivery.Object{}, saved: o.Saved,
		},
		parts: parts{
			epochs: epochs{again: make(chan source.Why, 1)}, resyncer: resyncer{resync: newResyncs()},
			before: previousStates{cache: o.Previous},
		},
		env: env, store: stored{committed: o.Saved, known: o.Known},
	}
	s.assemble()
	position := o.Saved.Position
	s.store.position.Store(&position)
	s.refusals.refused = refused.New(env.Delivery.Refused, &s.saved.Refused)
	s.saved.Kind, s.saved.Namespaced = at.Kind, at.Namespaced
	s.saved.ResyncDue = o.Saved.ResyncDue || o.Resyncs
	s.epochs.resume()
	s.account.SayEvery(logEvery)
	s.publication.undecidedly.Interval = logEvery
	s.saved.Entered = cmp.Or(s.saved.Entered, o.Entered)
	s.status = &status{stream: s, since: time.Now()}
	for _, op := range []source.Op{source.Added, source.Updated, source.Deleted} { // the common ones begin with 0
		s.account.Metrics.Published(op.String(), string(source.ReasonWatch))
	}
	s.account.Rate.Sample(s.account.Metrics.Total(), time.Now())
	return s
}

// begin queues the marker that a dead process owed.
func (s *stream) begin() { s.lists.completing = s.lists.announceSnapshot(true) }

// read reads until ctx ends, or end is closed: then what was read has been handed over when it returns, and else need
// not have been.
func (s *stream) read(ctx context.Context, end <-chan struct{}) error {
	running, ctx := errgroup.WithContext(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	running.Go(func() error {
		defer cancel()
		return s.epochs.readEpochs(ctx, end)
	})
	running.Go(func() error {
		s.auditor.audits(ctx, s.env.Audit)
		return nil
	})
	running.Go(func() error {
		s.resyncer.run(ctx)
		return nil
	})
	running.Go(func() error {
		s.refusals.retryRefused(ctx)
		return nil
	})
	return running.Wait()
}

// resume has a stream go on with the epoch that is stored, or take a new one where its selection is another. The commit
// of it precedes the first event. The caller has the stream for itself.
func (s *epochs) resume() {
	s.saved.Epoch = max(s.saved.Epoch, s.ledger.Epoch())
	s.epoch = s.saved.Epoch
	s.since.Store(s.saved.Since)
	switch {
	case s.saved.Retiring:
		return // what it has is of another selection
	case s.saved.Fingerprint == s.Scope():
	case s.saved.Position == "" && s.saved.Owes.From == "" && s.ledger.Len() == 0:
		s.takeEpoch(checkpoint.Owes{List: sequence.Reselect})
	default:
		s.takeEpoch(checkpoint.Owes{
			List: sequence.Reselect, From: cmp.Or(s.saved.Position, s.saved.Owes.From, "0"),
			Cause: string(source.CauseSelection), Message: "the entry selects other objects than before",
		})
		s.saved.Announced, s.saved.Unannounced, s.saved.Reselected = "", checkpoint.Snapshot{}, true
	}
	s.saved.Fingerprint = s.Scope()
}

// call takes note of what entries call the resource.
func (s *stream) call(names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved.Called = names
}
