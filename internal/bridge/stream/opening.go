// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/audit"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/delivery"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/previous"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/refused"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/resyncs"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/spec"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/watching"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// LogEvery is how often a stream logs what may be true of each of its events; the metrics count them all.
const LogEvery = 10 * time.Second

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

// Open makes a stream. It does nothing until Begin and Read.
func Open(env *Environment, of *spec.Stream, at source.Stream, o Opening) *Stream {
	s := &Stream{
		Identity: Identity{Stream: at, Name: at.Name(), Spec: of, Encoder: of.Encoder(at)},
		Figures:  delivery.Account{Name: at.Name(), Metrics: o.Metrics, Incidents: o.Incidents, Latest: of.Latest},
		State: State{
			Tracker: ledger.NewTracker(o.Saved.Position), Ledger: ledger.New(o.Rows, env.Budget.Hold),
			Pending: map[string]*delivery.Object{}, Saved: o.Saved,
		},
		Parts: Parts{
			Epochs: epochs{Again: make(chan source.Why, 1)}, Resyncer: resyncer{Resync: resyncs.New()},
			Before: PreviousStates{States: previous.States{Cache: o.Previous, Unknown: o.Metrics.UnknownOlds}},
		},
		Env: env, Store: stored{committed: o.Saved, known: o.Known},
	}
	s.Assemble()
	position := o.Saved.Position
	s.Store.Position.Store(&position)
	s.Refusals.refused = refused.New(env.Delivery.Refused, &s.Saved.Refused)
	s.Saved.Kind, s.Saved.Namespaced = at.Kind, at.Namespaced
	s.Saved.ResyncDue = o.Saved.ResyncDue || o.Resyncs
	s.Epochs.resume()
	s.Figures.SayEvery(LogEvery)
	s.Publication.undecidedly.Interval = LogEvery
	s.Saved.Entered = cmp.Or(s.Saved.Entered, o.Entered)
	s.Status = watching.New(watching.Config{
		Log: env.Log.With("stream", s.Name), Refresh: env.Refresh, Metrics: o.Metrics, Incidents: o.Incidents,
		Wildcard: of.Wildcard != nil, Kubernetes: s.Epochs.tells(),
	})
	s.Auditor = audit.Auditor{
		Stream: s, Client: env.Client, At: at, Ledger: s.Ledger, Log: env.Log.With("stream", s.Name),
		Metrics: o.Metrics, Watching: s.Status.Watching,
		Relist: func(why source.Why) {
			s.Epochs.Distrust()
			s.Epochs.AskForList(why)
		},
	}
	for _, op := range []source.Op{source.Added, source.Updated, source.Deleted} { // the common ones begin with 0
		s.Figures.Metrics.Published(op.String(), string(source.ReasonWatch))
	}
	s.Figures.Rate.Sample(s.Figures.Metrics.Total(), time.Now())
	return s
}

// Begin queues the marker that a dead process owed.
func (s *Stream) Begin() { s.Lists.completing = s.Lists.announceSnapshot(true) }

// Read reads until ctx ends, or end is closed: then what was read has been handed over when it returns, and else need
// not have been.
func (s *Stream) Read(ctx context.Context, end <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	beside.Go(func() { s.Auditor.Run(ctx, s.Env.Pipeline+"\x00"+s.Name, s.Env.Audit) })
	beside.Go(func() { s.Resyncer.Run(ctx) })
	beside.Go(func() { s.Refusals.retryRefused(ctx) })
	return s.Epochs.readEpochs(ctx, end)
}

// resume has a stream go on with the epoch that is stored, or take a new one where its selection is another. The commit
// of it precedes the first event. The caller has the stream for itself.
func (s *epochs) resume() {
	s.Saved.Epoch = max(s.Saved.Epoch, s.Ledger.Epoch())
	s.Epoch = s.Saved.Epoch
	s.Since.Store(s.Saved.Since)
	switch {
	case s.Saved.Retiring:
		return // what it has is of another selection
	case s.Saved.Fingerprint == s.Scope():
	case s.Saved.Position == "" && s.Saved.Owes.From == "" && s.Ledger.Len() == 0:
		s.TakeEpoch(checkpoint.Owes{List: sequence.Reselect})
	default:
		s.TakeEpoch(checkpoint.Owes{
			List: sequence.Reselect, From: cmp.Or(s.Saved.Position, s.Saved.Owes.From, "0"),
			Cause: string(source.CauseSelection), Message: "the entry selects other objects than before",
		})
		s.Saved.Announced, s.Saved.Unannounced, s.Saved.Reselected = "", checkpoint.Snapshot{}, true
	}
	s.Saved.Fingerprint = s.Scope()
}

// Call takes note of what entries call the resource.
func (s *Stream) Call(names []string) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Saved.Called = names
}
