// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// lastWords is how long a stream of a namespace that is gone waits for its watch to show what was deleted with it.
const lastWords = 10 * time.Second

// member is a namespace that a selector may take.
type member struct {
	namespaces *source.Namespaces
	selector   labels.Selector
	name       string
	// of is the spec that selects it.
	of *StreamSpec
}

// origin is the pipeline's own spec that a stream's comes from.
func (spec *StreamSpec) origin() *StreamSpec {
	if spec.member != nil {
		return spec.member.of
	}
	return spec
}

// membership is what is called unknown of a spec while it is not known which namespaces there are.
func (spec *StreamSpec) membership() string { return "namespaces of " + spec.Resource }

// stays reports whether a stream of the namespace goes on: also while it is deleted, so that the watch shows what is deleted with it.
func (m *member) stays() (stays bool, ns source.Namespace, exists bool, changed <-chan struct{}) {
	ns, exists, changed = m.namespaces.Get(m.name)
	return exists && (ns.Terminating || m.selector.Matches(ns.Labels)), ns, exists, changed
}

// precedes reports whether the namespace is known in a state of before the version at which the selector took it. In a history that was restored it is such a state
// for good: there what is known of other namespaces tells.
func (m *member) precedes(ns source.Namespace, entered string) bool {
	return entered != "" && after(entered, ns.ResourceVersion) && m.namespaces.Precedes(entered)
}

// spreader reads a resource in each namespace that a selector takes, one stream for each.
type spreader struct {
	session *session
	spec    *StreamSpec
	// ended has room for one word that a stream is not read any more.
	ended chan struct{}

	// mu guards reading: the namespaces that are read now.
	mu      sync.Mutex
	reading map[string]struct{}
}

// spread reads a resource in the namespaces that a selector takes, as they come, go and change their labels, until ctx ends.
func (p *session) spread(ctx context.Context, spec *StreamSpec) error {
	f := &spreader{session: p, spec: spec, ended: make(chan struct{}, 1), reading: map[string]struct{}{}}
	streams, ctx := errgroup.WithContext(ctx)
	streams.Go(func() error {
		var first sync.WaitGroup
		what := spec.membership()
		for begun := false; ; {
			all, changed, err := p.cfg.Namespaces.Now()
			p.unresolved(what, err)
			if err == nil {
				f.start(ctx, streams, all, firstOnly(&first, !begun))
			}
			if err == nil && !begun {
				begun = true
				streams.Go(func() error {
					first.Wait()
					p.begun(spec)
					return nil
				})
			}
			select {
			case <-changed:
			case <-f.ended:
			case <-ctx.Done():
				return nil
			}
		}
	})
	return streams.Wait()
}

// start reads the namespaces that are not read yet: those that the selector takes, and those of which the store has something. Opening counts what is not open yet.
func (f *spreader) start(ctx context.Context, streams *errgroup.Group, all map[string]source.Namespace, opening *sync.WaitGroup) {
	wanted := f.session.storedIn(f.spec)
	for name, ns := range all {
		if f.spec.NamespaceSelector.Matches(ns.Labels) && !ns.Terminating {
			wanted[name] = struct{}{}
		}
	}
	for name := range wanted {
		f.mu.Lock()
		_, taken := f.reading[name]
		f.reading[name] = struct{}{}
		f.mu.Unlock()
		if taken {
			continue
		}
		own := *f.spec
		own.Namespace, own.member = name, &member{f.session.cfg.Namespaces, f.spec.NamespaceSelector, name, f.spec}
		opening.Add(1)
		opened := sync.OnceFunc(opening.Done)
		streams.Go(func() error {
			defer f.leave(name)
			defer opened()
			return f.session.readNamed(ctx, &own, opened)
		})
	}
}

func (f *spreader) leave(name string) {
	f.mu.Lock()
	delete(f.reading, name)
	f.mu.Unlock()
	select {
	case f.ended <- struct{}{}:
	default:
	}
}

// storedIn returns the namespaces of which the store has a spec's resource.
func (p *session) storedIn(spec *StreamSpec) map[string]struct{} {
	found := map[string]struct{}{}
	stored := p.stored()
	if len(stored) == 0 {
		return found
	}
	r, err := p.cfg.Discovery.Resolve(spec.Resource)
	for _, at := range stored {
		same := err == nil && r.Group == at.Group && r.Resource == at.Resource.Resource
		if at.Namespace != "" && (same || p.named(spec, at)) {
			found[at.Namespace] = struct{}{}
		}
	}
	return found
}

// leave publishes the deletion of everything that a stream has which its pipeline does not read any more, since its namespace was at a version, and forgets the stream. The
// version is safe before anything is published under it: whatever comes between, that is done to its end. The error is ctx's, or permanent.
func (p *session) leave(ctx context.Context, s *stream, version string) error {
	s.mu.Lock()
	if s.saved.Leaving == "" {
		s.saved.Leaving = version
	}
	version = s.saved.Leaving
	s.mu.Unlock()
	if err := p.save(ctx); err != nil {
		return err
	}
	return p.finishOff(ctx, s, fmt.Sprintf(".s%s", version), "its namespace is not selected any more")
}

// left returns why a stream of a selected namespace ends now; nil if it does not.
func (s *stream) left() *ending {
	s.mu.Lock()
	leaving, entered := s.saved.Leaving, s.saved.Entered
	s.mu.Unlock()
	switch {
	case s.spec.member == nil:
		return nil
	case leaving != "":
		return &ending{left: leaving}
	}
	stays, ns, exists, _ := s.spec.member.stays()
	switch {
	case stays, exists && s.spec.member.precedes(ns, entered):
		return nil
	case !exists:
		return &ending{gone: true}
	default:
		return &ending{left: ns.ResourceVersion}
	}
}

// enter takes note at which version of its namespace a stream began that the store has nothing of.
func (s *stream) enter() {
	if s.spec.member == nil || s.saved.Entered != "" {
		return
	}
	if ns, ok, _ := s.spec.member.namespaces.Get(s.Namespace); ok {
		s.saved.Entered = ns.ResourceVersion
	}
}
