// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// read finds out what the resource is, and reads it. If it goes away it may come back.
func (p *session) read(ctx context.Context, spec *StreamSpec) error {
	if spec.NamespaceSelector != nil {
		return p.spread(ctx, spec)
	}
	if spec.Wildcard != nil {
		return p.follow(ctx, spec, func() { p.begun(spec) })
	}
	return p.readNamed(ctx, spec, func() { p.begun(spec) })
}

// readNamed reads a resource in one scope until ctx ends, the spec is dropped, or the scope is a namespace that is not selected any more. Opened is called when a stream is open.
func (p *session) readNamed(ctx context.Context, spec *StreamSpec, opened func()) error {
	for ctx.Err() == nil && !spec.dropped() {
		resource, err := p.resolve(ctx, spec)
		if err != nil {
			return p.ended(err)
		}
		was := spec.selected()
		if err := p.readAs(ctx, spec, resource, opened); err != nil {
			return err
		}
		if !was || !spec.selected() || spec.dropped() {
			return nil
		}
		p.cfg.Discovery.Reset()
	}
	return nil
}

// read reads until ctx ends, or end is closed: then what was read has been handed over when it returns, and else need not have been.
func (s *stream) read(ctx context.Context, end <-chan struct{}) error {
	running, ctx := errgroup.WithContext(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	running.Go(func() error {
		defer cancel()
		return s.readEpochs(ctx, end)
	})
	running.Go(func() error {
		s.audits(ctx, s.session.cfg.Audit)
		return nil
	})
	running.Go(func() error {
		s.resyncs(ctx)
		return nil
	})
	return running.Wait()
}

// resolve asks until the API server knows the resource. Its CustomResourceDefinition may be yet to come.
func (p *session) resolve(ctx context.Context, spec *StreamSpec) (source.Resource, error) {
	began, delay := time.Now(), 250*time.Millisecond
	for tries := 0; ; tries++ {
		var changed <-chan struct{}
		if p.cfg.Catalog != nil {
			_, changed = p.cfg.Catalog.Now()
		}
		r, err := p.readable(spec)
		if err == nil {
			return r, p.scoped(r, spec)
		}
		if tries%10 == 0 {
			p.log.Warn("resource is not known yet", "resource", spec.Resource, "err", err)
		}
		p.unresolved(spec.Resource, err)
		if err := p.buryStored(ctx, spec); err != nil {
			return r, err
		}
		if !absent(err) {
			began = time.Now() // it is the API server that is missing
		}
		delay = askAgain(delay, time.Since(began))
		select {
		case <-time.After(delay):
		case <-changed:
		case <-spec.drop:
			return r, errDropped
		case <-ctx.Done():
			return r, ctx.Err()
		}
	}
}

// askAgain returns what is between two questions for a resource, by what was before them and for how long the API server has said that there is none: what stays away is
// asked for ever less often, and is there for a tenth of that time at most before that is seen, or for half a minute.
func askAgain(before, absent time.Duration) time.Duration {
	return max(min(2*before, 5*time.Second), min(absent/10, 30*time.Second))
}

// readable finds what a spec names, if it can be listed and watched.
func (p *session) readable(spec *StreamSpec) (source.Resource, error) {
	r, err := p.cfg.Discovery.Resolve(spec.Resource)
	if err != nil {
		return r, err
	}
	if readable, err := p.cfg.Discovery.Readable(r); err == nil && !readable {
		p.cfg.Discovery.Reset()
		return r, &unlistedError{r}
	}
	return r, nil // in doubt reading it will tell
}

// unlistedError says that the API server has a resource, and that there is nothing to be read of it.
type unlistedError struct{ resource source.Resource }

// Error implements error.
func (e *unlistedError) Error() string {
	return fmt.Sprintf("resource %s cannot be listed and watched", e.resource)
}

// absent reports whether err is an answer of the API server that there is nothing to be read, and not the lack of one.
func absent(err error) bool {
	var unlisted *unlistedError
	return apimeta.IsNoMatchError(err) || errors.As(err, &unlisted)
}

// scoped refuses a namespace for a resource that has none: the API server would answer 404 for ever.
func (p *session) scoped(r source.Resource, spec *StreamSpec) error {
	p.unresolved(spec.Resource, nil)
	if spec.Namespace != "" && !r.Namespaced {
		return &SpecError{fmt.Errorf("resource %s is cluster-scoped and cannot be read in namespace %q: remove its namespaces or namespaceSelector", r, spec.Namespace)}
	}
	return nil
}

// open makes the far side of a stream from what the store has of it. It refuses a stream that has objects in common with another:
// two names of a resource are known to be one only here. Where that is a wildcard's, and spec is none, the error is a [yieldError].
func (p *session) open(spec *StreamSpec, at source.Stream) (*stream, error) {
	name := at.Name()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.streams {
		sameNamespace := o.Namespace == "" || at.Namespace == "" || o.Namespace == at.Namespace
		if o.Group == at.Group && o.Stream.Resource.Resource == at.Resource.Resource && sameNamespace {
			return nil, o.holdsAgainst(spec, name)
		}
	}
	s := p.newStream(spec, at)
	p.streams = append(p.streams, s)
	s.announceSnapshot(true)
	return s, nil
}

// packing returns the packer of the session; the caller holds mu.
func (p *session) packing() *packer {
	if p.packer == nil {
		p.packer = newPacker()
	}
	return p.packer
}

// begun takes note that all that spec names at first is open.
func (p *session) begun(spec *StreamSpec) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.unbegun, spec)
	if len(p.unbegun) == 0 && p.cfg.Catalog == nil {
		p.state.Rows = nil // the rest is of streams that are not read any more; the store keeps it
	}
}

// newStream makes a stream of what the store and the log have of it; the caller holds mu.
func (p *session) newStream(spec *StreamSpec, at source.Stream) *stream {
	name := at.Name()
	saved, stored := p.state.Streams[name]
	s := &stream{
		Stream: at, name: name, spec: spec, session: p,
		metrics: p.cfg.Metrics.stream(p.name, name),
		tracker: checkpoint.NewTracker(saved.Position),
		ledger:  checkpoint.NewLedger(p.state.Rows[name]),
		pending: map[string]*object{}, again: make(chan source.Why, 1), yield: make(chan struct{}, 1), resync: newResyncs(),
		saved: saved, committed: saved, stored: stored, fingerprint: at.Scope(),
	}
	s.saved.Kind, s.saved.Namespaced, s.saved.Called = at.Kind, at.Namespaced, spec.calling(at.Resource)
	s.encoder = spec.encoder(at)
	s.resume()
	s.olds = newOlds(spec, p.packing)
	s.often.set(logEvery)
	if !p.holds(name, saved) {
		s.enter()
	}
	delete(p.state.Rows, name)
	s.status = &status{stream: s, since: time.Now()}
	s.past = p.pasts.of(name)
	s.flow.observe(s.metrics.total(), time.Now())
	return s
}

// resume has a stream go on with the epoch that is stored, or take a new one where its selection is another. The commit
// of it precedes the first event. The caller has the stream for itself.
func (s *stream) resume() {
	s.saved.Epoch = max(s.saved.Epoch, s.ledger.Epoch())
	s.epoch = s.saved.Epoch
	s.since.Store(s.saved.Since)
	switch {
	case s.saved.Fingerprint == s.fingerprint:
	case s.saved.Position == "" && s.saved.Owes.From == "" && s.ledger.Len() == 0:
		s.takeEpoch(checkpoint.Owes{List: sequence.Reselect})
	default:
		s.takeEpoch(checkpoint.Owes{
			List: sequence.Reselect, From: cmp.Or(s.saved.Position, s.saved.Owes.From, "0"),
			Cause: string(source.CauseSelection), Message: "the entry selects other objects than before",
		})
		s.saved.Announced, s.saved.Unannounced = "", checkpoint.Snapshot{}
	}
	s.saved.Fingerprint = s.fingerprint
}
