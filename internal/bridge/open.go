// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/delivery"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/previous"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/refused"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

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
		s.auditor.audits(ctx, s.session.cfg.Audit)
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

// open makes the far side of a stream from what the store has of it.
func (p *session) open(spec *StreamSpec, at source.Stream) (*stream, error) {
	name := at.Name()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.streams {
		if o.name == name {
			return nil, fmt.Errorf("BUG: stream %s is open", name)
		}
	}
	s := p.newStream(spec, at)
	p.streams = append(p.streams, s)
	s.lists.completing = s.lists.announceSnapshot(true)
	return s, nil
}

// previous returns the previous states of a stream's objects; nil where neither payload nor filter asks for them. The
// caller holds mu.
func (p *session) previous(spec *StreamSpec) *previous.Objects {
	data, objects := spec.Encoding.Payload.FromOld(), spec.Olds
	if !data && !objects {
		return nil
	}
	if p.cache.Load() == nil {
		p.cache.Store(previous.NewCache(p.budget, p.sayFull))
	}
	return p.cache.Load().Objects(data, objects)
}

// trimCache evicts previous states where the buffer has become smaller, or deleted objects leave less of it.
func (p *session) trimCache() {
	if c := p.cache.Load(); c != nil {
		c.Trim()
	}
}

// sayFull logs that previous states are evicted.
func (p *session) sayFull() {
	p.log.Info("the previous states of all objects do not fit into the buffer, of which they may take a quarter: the "+
		"next update of an object whose state was evicted is published whole, and filters that need the state publish it; "+
		"a larger buffer.maxBytes keeps more",
		"maxBytes", p.budget.Limit())
}

// newStream makes a stream of what the store and the log have of it; the caller holds mu.
func (p *session) newStream(spec *StreamSpec, at source.Stream) *stream {
	name := at.Name()
	saved, known := p.state.Streams[name]
	s := &stream{
		identity: identity{Stream: at, name: name, spec: spec, encoder: spec.Encoder(at)},
		account: delivery.Account{
			Name: name, Metrics: p.cfg.Metrics.Stream(p.name, name), Incidents: p.incidents.Stream(name), Latest: spec.Latest,
		},
		state: state{
			tracker: ledger.NewTracker(saved.Position), ledger: ledger.New(p.state.Rows[name], p.budget.Hold),
			pending: map[string]*delivery.Object{}, saved: saved,
		},
		parts: parts{
			epochs: epochs{again: make(chan source.Why, 1)}, resyncer: resyncer{resync: newResyncs()},
		},
		session: p, store: stored{committed: saved, known: known},
	}
	s.assemble()
	s.store.position.Store(&saved.Position)
	s.refusals.refused = refused.New(&p.refusals, &s.saved.Refused)
	s.saved.Kind, s.saved.Namespaced = at.Kind, at.Namespaced
	s.saved.ResyncDue = saved.ResyncDue || !known && p.resyncNew && !spec.SkipSnapshot
	s.epochs.resume()
	s.before.cache = p.previous(spec)
	s.account.SayEvery(logEvery)
	s.publication.undecidedly.Interval = logEvery
	s.enter()
	if saved.Retiring {
		s.left = inNamespaces(p.state.Rows[name])
	}
	delete(p.state.Rows, name)
	s.status = &status{stream: s, since: time.Now()}
	for _, op := range []source.Op{source.Added, source.Updated, source.Deleted} { // the common ones begin with 0
		s.account.Metrics.Published(op.String(), string(source.ReasonWatch))
	}
	s.account.Rate.Sample(s.account.Metrics.Total(), time.Now())
	return s
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

// enter takes note at which version of its namespace a selector took it.
func (s *stream) enter() {
	namespaces := s.session.cfg.Namespaces
	if s.spec.NamespaceSelector == nil || s.saved.Entered != "" || namespaces == nil {
		return
	}
	if ns, ok, _ := namespaces.Get(s.Namespace); ok {
		s.saved.Entered = ns.ResourceVersion
	}
}
