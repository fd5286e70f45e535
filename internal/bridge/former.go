// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// A name may come to mean another resource, as one of the same plural in another group. What the store has of the one before is then of a resource that nothing reads, and its
// objects are deleted in the log once it does not exist any more.

// readAs reads the resource that the name of a spec means, and meanwhile ends what the store has of others that it meant before. It returns when the resource is gone for certain, or
// ctx has ended, the spec is dropped, or the namespace is not selected any more and nothing is left of it. Opened is called when a stream is open.
func (p *session) readAs(ctx context.Context, spec *StreamSpec, r source.Resource, opened func()) error {
	if spec.selected() || p.knows(spec.stream(r)) {
		running, ctx := errgroup.WithContext(ctx)
		enough := make(chan struct{})
		running.Go(func() error { return p.buryFormer(ctx, spec, r, enough) })
		running.Go(func() error {
			defer close(enough)
			return p.live(ctx, spec, r, opened)
		})
		if err := running.Wait(); err != nil || spec.selected() {
			return err
		}
	}
	opened()
	return p.buryFormer(ctx, spec, r, nil)
}

// buryFormer ends the stored streams that a spec names of other resources than now, until there are none, enough is closed, the spec is dropped, or the namespace comes to be selected.
func (p *session) buryFormer(ctx context.Context, spec *StreamSpec, now source.Resource, enough <-chan struct{}) error {
	if p.cfg.Catalog == nil {
		return nil
	}
	left := !spec.selected()
	for doubt := firstDoubt; ; doubt = longer(doubt) {
		offers, changed := p.cfg.Catalog.Now()
		relabelled := spec.relabelled()
		former, lost := p.former(spec, now, offers)
		if len(former) == 0 || left && spec.selected() || spec.dropped() {
			return nil
		}
		if err := p.buryGone(ctx, spec, lost); err != nil {
			return p.ended(err)
		}
		var later <-chan time.Time
		if len(lost) > 0 {
			later = time.After(doubt)
		}
		select {
		case <-changed:
		case <-later:
		case <-relabelled:
		case <-enough:
			return nil
		case <-spec.drop:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// former returns the stored streams that a spec names of other resources than now, and that nothing else reads; lost are those of them that are not served.
func (p *session) former(spec *StreamSpec, now source.Resource, offers *source.Offers) (all, lost []source.Stream) {
	for _, at := range p.stored() {
		same := at.Group == now.Group && at.Resource.Resource == now.Resource
		if same || at.Namespace != spec.Namespace || !p.onlyNamed(spec, at, offers) {
			continue
		}
		all = append(all, at)
		if offers != nil && offers.Get(at.Group, at.Resource.Resource) == nil {
			lost = append(lost, at)
		}
	}
	return all, lost
}

// onlyNamed reports whether a spec names a stored stream, and no other one reads it. Offers may be nil.
func (p *session) onlyNamed(spec *StreamSpec, at source.Stream, offers *source.Offers) bool {
	return p.named(spec, at) && !p.spokenFor(spec, at) && (offers == nil || !p.wildcardHas(at, offers))
}

// wildcardHas reports whether a wildcard reads a stored stream.
func (p *session) wildcardHas(at source.Stream, offers *source.Offers) bool {
	for _, o := range p.specs() {
		selects := o.NamespaceSelector != nil && at.Namespace != ""
		if o.Wildcard != nil && (selects || o.NamespaceSelector == nil && o.Namespace == at.Namespace) && p.leads(o, at, offers) {
			return true
		}
	}
	return false
}

// buryStored ends the stored streams that a spec names where their resources do not exist any more. The error is ctx's, or permanent.
func (p *session) buryStored(ctx context.Context, spec *StreamSpec) error {
	if p.cfg.Catalog == nil {
		return nil
	}
	var named []source.Stream
	for _, at := range p.stored() {
		if at.Namespace == spec.Namespace && p.named(spec, at) {
			named = append(named, at)
		}
	}
	return p.buryGone(ctx, spec, named)
}

// buryGone ends those of the stored streams of a spec whose resources do not exist any more, unless somebody else is about to. The error is ctx's, or permanent.
func (p *session) buryGone(ctx context.Context, spec *StreamSpec, stored []source.Stream) error {
	for _, at := range stored {
		if !p.cfg.Catalog.Gone(ctx, at.Resource) {
			continue
		}
		s, err := p.open(spec, spec.stream(at.Resource))
		var wrong *SpecError
		var yields *yieldError
		if errors.As(err, &wrong) || errors.As(err, &yields) {
			continue
		}
		if err := p.bury(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// knows reports whether the store has anything of a stream, in whatever version.
func (p *session) knows(at source.Stream) bool {
	for _, o := range p.stored() {
		if o.Group == at.Group && o.Resource.Resource == at.Resource.Resource && o.Namespace == at.Namespace {
			return true
		}
	}
	return false
}

// selected reports whether a spec's namespace is to be read; it is where none had to be selected.
func (spec *StreamSpec) selected() bool {
	if spec.member == nil {
		return true
	}
	stays, _, _, _ := spec.member.stays()
	return stays
}

// relabelled returns what is closed when namespaces have changed; nil where none had to be selected.
func (spec *StreamSpec) relabelled() <-chan struct{} {
	if spec.member == nil {
		return nil
	}
	_, _, _, changed := spec.member.stays()
	return changed
}
