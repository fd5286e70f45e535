// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// follower reads all that a wildcard names in one scope, one stream for each resource.
type follower struct {
	session *session
	spec    *StreamSpec
	// ended has room for one word that a stream is not read any more.
	ended chan struct{}
	// nothing is why nothing was to be read, when that was looked at last.
	nothing string

	// mu guards reading: what is read now.
	mu      sync.Mutex
	reading map[schema.GroupResource]struct{}
}

// follow reads what a wildcard names, as it comes and until it goes, until ctx ends.
func (p *session) follow(ctx context.Context, spec *StreamSpec) error {
	f := &follower{session: p, spec: spec, ended: make(chan struct{}, 1), reading: map[schema.GroupResource]struct{}{}}
	streams, ctx := errgroup.WithContext(ctx)
	streams.Go(func() error {
		var first sync.WaitGroup
		for round := 0; ; round++ {
			offers, changed := p.cfg.Catalog.Now()
			if offers == nil {
				round = -1
			} else {
				f.tell(offers)
				f.start(ctx, streams, offers, firstOnly(&first, round == 0))
			}
			if round == 0 {
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

// tell logs that nothing is to be read, when that begins.
func (f *follower) tell(offers *source.Offers) {
	why := f.spec.Wildcard.Nothing(offers, f.spec.Namespace != "")
	if why != "" && why != f.nothing {
		f.session.log.Warn("a wildcard selects nothing now; what comes is read", "resource", f.spec.Resource, "why", why)
	}
	f.nothing = why
}

// firstOnly returns who counts the streams that are not open yet: only those of the first round are waited for, and a group that is waited for must not count more.
func firstOnly(first *sync.WaitGroup, is bool) *sync.WaitGroup {
	if is {
		return first
	}
	return &sync.WaitGroup{}
}

// start reads what is not read yet. Opening counts what is not open yet.
func (f *follower) start(ctx context.Context, streams *errgroup.Group, offers *source.Offers, opening *sync.WaitGroup) {
	for _, r := range f.session.wanted(f.spec, offers) {
		if !f.take(r) {
			continue
		}
		opening.Add(1)
		opened := sync.OnceFunc(opening.Done)
		streams.Go(func() error {
			defer opened()
			err := f.session.live(ctx, f.spec, r, opened)
			var wrong *SpecError
			if errors.As(err, &wrong) {
				f.session.log.Warn("a resource is read by its name already, and left out here", "resource", r.String(), "err", err)
				return nil // it stays taken
			}
			f.leave(r)
			return err
		})
	}
}

func (f *follower) take(r source.Resource) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := schema.GroupResource{Group: r.Group, Resource: r.Resource}
	_, taken := f.reading[name]
	f.reading[name] = struct{}{}
	return !taken
}

func (f *follower) leave(r source.Resource) {
	f.mu.Lock()
	delete(f.reading, schema.GroupResource{Group: r.Group, Resource: r.Resource})
	f.mu.Unlock()
	select {
	case f.ended <- struct{}{}:
	default:
	}
}

// wanted returns the resources that a wildcard is to read: those that are served and that nothing more exact names, and those that it read before and that
// are not served now.
func (p *session) wanted(spec *StreamSpec, offers *source.Offers) (all []source.Resource) {
	for _, s := range offers.All() {
		within := spec.Namespace == "" || s.Versions[0].Namespaced
		if within && spec.Wildcard.matches(s, offers) && !p.claimed(spec, s, offers) {
			all = append(all, s.Versions[0])
		}
	}
	for _, at := range p.stored() {
		lost := &source.Served{Group: at.Group, Resource: at.Resource.Resource, Versions: []source.Resource{at.Resource}}
		here := at.Namespace == spec.Namespace && offers.Get(at.Group, lost.Resource) == nil
		if here && spec.Wildcard.matches(lost, offers) && !p.claimed(spec, lost, offers) {
			all = append(all, at.Resource)
		}
	}
	return all
}

// claimed reports whether another spec names a resource more exactly than a wildcard does, in a scope that has objects in common with its.
func (p *session) claimed(spec *StreamSpec, s *source.Served, offers *source.Offers) bool {
	before := true
	for i := range p.cfg.Streams {
		o := &p.cfg.Streams[i]
		if o == spec {
			before = false
			continue
		}
		if o.Namespace != "" && spec.Namespace != "" && o.Namespace != spec.Namespace {
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
