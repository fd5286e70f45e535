// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"time"

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

// spread reads a spec in the namespaces that its selector takes, as they come, go and change their labels, until ctx ends, or the spec is dropped.
func (p *session) spread(ctx context.Context, spec *StreamSpec) error {
	what, tell := spec.membership(), p.nothing(spec)
	call := func() (now roll[string, string]) {
		if spec.dropped() {
			return roll[string, string]{over: true}
		}
		now.edition, now.edited = p.edition()
		now.ends = spec.drop
		all, changed, err := p.cfg.Namespaces.Now()
		now.changed = changed
		p.unresolved(what, err)
		var offers *source.Offers
		if p.cfg.Catalog != nil {
			offers, now.moved = p.cfg.Catalog.Now()
		}
		if err != nil || spec.Wildcard != nil && offers == nil {
			return now
		}
		if spec.Wildcard != nil {
			tell(offers)
		}
		now.all = p.storedIn(spec, offers)
		for name, ns := range all {
			if spec.NamespaceSelector.Matches(ns.Labels) && !ns.Terminating {
				now.all[name] = name
			}
		}
		return now
	}
	read := func(ctx context.Context, name string, opened func()) (done bool, err error) {
		own := p.in(spec, name)
		if own.Wildcard != nil {
			err = p.follow(ctx, own, opened)
		} else {
			err = p.readNamed(ctx, own, opened)
		}
		return spec.dropped(), err
	}
	return readEach(ctx, call, read, func() { p.begun(spec) })
}

// in is the spec of one namespace that another one selects.
func (p *session) in(spec *StreamSpec, namespace string) *StreamSpec {
	own := *spec
	own.Namespace, own.member = namespace, &member{p.cfg.Namespaces, spec.NamespaceSelector, namespace, spec}
	return &own
}

// storedIn returns the namespaces of which the store has what a spec reads, or what it named before and is not served now; offers are needed where that is a wildcard.
func (p *session) storedIn(spec *StreamSpec, offers *source.Offers) map[string]string {
	found := map[string]string{}
	stored := p.stored()
	if len(stored) == 0 {
		return found
	}
	is := func(at source.Stream) bool { return p.leads(p.in(spec, at.Namespace), at, offers) }
	if spec.Wildcard == nil {
		r, err := p.cfg.Discovery.Resolve(spec.Resource)
		is = func(at source.Stream) bool {
			switch {
			case err != nil:
				return p.named(spec, at)
			case r.Group == at.Group && r.Resource == at.Resource.Resource:
				return true
			default:
				return offers != nil && offers.Get(at.Group, at.Resource.Resource) == nil && p.onlyNamed(p.in(spec, at.Namespace), at, offers)
			}
		}
	}
	for _, at := range stored {
		if at.Namespace != "" && is(at) {
			found[at.Namespace] = at.Namespace
		}
	}
	return found
}

// left returns why a stream of a selected namespace ends now; nil if it does not.
func (s *stream) left() *ending {
	s.mu.Lock()
	retiring, entered := s.saved.Retiring, s.saved.Entered
	s.mu.Unlock()
	switch {
	case s.spec.member == nil:
		return nil
	case retiring:
		return &ending{left: true}
	}
	stays, ns, exists, _ := s.spec.member.stays()
	switch {
	case stays, exists && s.spec.member.precedes(ns, entered):
		return nil
	case !exists:
		return &ending{gone: true}
	default:
		return &ending{left: true}
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
