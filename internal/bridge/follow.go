// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// follow reads what a wildcard names in one scope, one stream for each resource, as it comes and until it goes, until ctx ends, the spec is dropped, or the scope is a namespace that is not
// selected any more. Begun is called when all is open that there was at first.
func (p *session) follow(ctx context.Context, spec *StreamSpec, begun func()) error {
	tell := p.nothing(spec)
	call := func() (now roll[schema.GroupResource, source.Resource]) {
		if spec.dropped() {
			return roll[schema.GroupResource, source.Resource]{over: true}
		}
		selected := true
		now.edition, now.edited = p.edition()
		now.ends = spec.drop
		if spec.member != nil {
			selected, _, _, now.moved = spec.member.stays()
		}
		offers, changed := p.cfg.Catalog.Now()
		now.changed = changed
		if offers == nil {
			return now
		}
		if spec.member == nil {
			tell(offers)
		}
		now.all, now.over = map[schema.GroupResource]source.Resource{}, !selected
		for _, r := range p.wanted(spec, offers) {
			name := schema.GroupResource{Group: r.Group, Resource: r.Resource}
			if _, other := now.all[name]; !other {
				now.all[name] = r
			}
		}
		return now
	}
	read := func(ctx context.Context, r source.Resource, opened func()) (done bool, err error) {
		err = p.live(ctx, spec, r, opened)
		var wrong *SpecError
		if errors.As(err, &wrong) {
			p.log.Warn("a resource is read by its name already, and left out here", "resource", r.String(), "err", err)
			return true, nil
		}
		return spec.dropped(), err
	}
	return readEach(ctx, call, read, begun)
}

// nothing returns what logs that a wildcard has nothing to be read, when that begins.
func (p *session) nothing(spec *StreamSpec) func(*source.Offers) {
	was := ""
	return func(offers *source.Offers) {
		why := spec.Wildcard.Nothing(offers, spec.Namespace != "" || spec.NamespaceSelector != nil)
		if why != "" && why != was {
			p.log.Warn("a wildcard selects nothing now; what comes is read", "resource", spec.Resource, "why", why)
		}
		was = why
	}
}

// wanted returns the resources that a wildcard is to read: those that are served and that nothing more exact names, and those that it read before and that
// are not served now. In a namespace that is not selected any more there are only those that it read before.
func (p *session) wanted(spec *StreamSpec, offers *source.Offers) (all []source.Resource) {
	selected := true
	if spec.member != nil {
		selected, _, _, _ = spec.member.stays()
	}
	if selected {
		for _, s := range offers.All() {
			within := spec.Namespace == "" || s.Versions[0].Namespaced
			if within && spec.Wildcard.matches(s, offers) && !p.claimed(spec, s, offers) {
				all = append(all, s.Versions[0])
			}
		}
	}
	for _, at := range p.stored() {
		lost := offers.Get(at.Group, at.Resource.Resource) == nil
		if at.Namespace == spec.Namespace && (lost || !selected) && p.leads(spec, at, offers) {
			all = append(all, at.Resource)
		}
	}
	return all
}

// leads reports whether a stored stream of the scope of a wildcard is one that it is to read.
func (p *session) leads(spec *StreamSpec, at source.Stream, offers *source.Offers) bool {
	s := offers.Get(at.Group, at.Resource.Resource)
	if s == nil {
		s = &source.Served{Group: at.Group, Resource: at.Resource.Resource, Versions: []source.Resource{at.Resource}}
	}
	return spec.Wildcard.matches(s, offers) && !p.claimed(spec, s, offers) && !p.spokenFor(spec, at)
}

// spokenFor reports whether a spec other than the given one keeps a stored stream that both may read.
func (p *session) spokenFor(spec *StreamSpec, at source.Stream) bool {
	for _, o := range p.specs() {
		if o != spec.origin() && o.meets(spec) && p.keeps(o, at) {
			return true
		}
	}
	return false
}

// keeps reports whether a spec that is no wildcard names the resource of a stored stream, and no other one by that name; also where that cannot be told now.
func (p *session) keeps(spec *StreamSpec, at source.Stream) bool {
	if spec.Wildcard != nil || !p.named(spec, at) {
		return false
	}
	r, err := p.cfg.Discovery.Resolve(spec.Resource)
	return err != nil || firstOf(r.Group, r.Resource) == firstOf(at.Group, at.Resource.Resource)
}

// meets reports whether two specs may have namespaces in common: one that selects them may come to have any.
func (spec *StreamSpec) meets(o *StreamSpec) bool {
	return o.Namespace == "" || spec.Namespace == "" || o.Namespace == spec.Namespace
}

// claimed reports whether another spec names a resource more exactly than a wildcard does, in a scope that may have objects in common with its.
func (p *session) claimed(spec *StreamSpec, s *source.Served, offers *source.Offers) bool {
	before := true
	for _, o := range p.specs() {
		if o == spec.origin() {
			before = false
			continue
		}
		if !o.meets(spec) {
			continue
		}
		switch {
		case o.Wildcard == nil:
			if p.names(o, s, offers) {
				return true
			}
		case spec.Wildcard.wider(o.Wildcard), before && !o.Wildcard.wider(spec.Wildcard):
			if o.shows(s, offers) {
				return true
			}
		}
	}
	return false
}

// shows reports whether a wildcard names a resource, or another one with the same objects.
func (spec *StreamSpec) shows(s *source.Served, offers *source.Offers) bool {
	if spec.Namespace != "" && !s.Versions[0].Namespaced {
		return false
	}
	first := firstOf(s.Group, s.Resource)
	return slices.ContainsFunc(append(offers.All(), s), func(other *source.Served) bool {
		return firstOf(other.Group, other.Resource) == first && spec.Wildcard.matches(other, offers)
	})
}

// names reports whether a spec names a resource, or another one with the same objects; also where that cannot be told now.
func (p *session) names(spec *StreamSpec, s *source.Served, offers *source.Offers) bool {
	first := firstOf(s.Group, s.Resource)
	for _, other := range append(offers.All(), s) {
		if firstOf(other.Group, other.Resource) != first || !mayMean(spec.Resource, other) {
			continue
		}
		r, err := p.cfg.Discovery.Resolve(spec.Resource)
		if err != nil || firstOf(r.Group, r.Resource) == first {
			return true
		}
	}
	return false
}

// stored returns the streams that the store has something of and that are not open.
func (p *session) stored() (all []source.Stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	open := map[string]bool{}
	for _, s := range p.streams {
		open[s.name] = true
	}
	for name, saved := range p.state.Streams {
		at, ok := source.ParseName(name)
		if ok && !open[name] && saved.Kind != "" && p.holds(name, saved) {
			at.Kind, at.Namespaced = saved.Kind, saved.Namespaced
			all = append(all, at)
		}
	}
	return all
}

// holds reports whether something of a stream is in the log; the caller holds mu.
func (p *session) holds(name string, saved checkpoint.Stream) bool {
	return saved.Position != "" || len(p.state.Rows[name]) > 0
}
