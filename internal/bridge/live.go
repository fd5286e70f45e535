// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// firstDoubt and longestDoubt are between two looks at whether something is really gone: a doubt that stays is not to keep the API server busy.
const firstDoubt, longestDoubt = 500 * time.Millisecond, 2 * time.Minute

// longer returns what is between the next two looks.
func longer(doubt time.Duration) time.Duration { return min(doubt*3/2, longestDoubt) }

// ending is why a stream ends while its session goes on.
type ending struct {
	// gone: the resource does not exist any more. Else it is served as to.
	gone bool
	to   source.Resource
	// doubtful: the resource is not served, and it is not certain that it is gone.
	doubtful bool
	// yields: a name asks for what a wildcard reads.
	yields bool
	// dropped: the spec is read no more, and what the log has of it stays.
	dropped bool
	// left: its namespace is not selected any more.
	left bool
}

// live reads a resource, in one version after another, until it is gone for certain, the spec is dropped or ctx ends. Opened is called when a stream of it is open. The error
// is permanent, or a [SpecError]: of a wildcard also where it has yielded to a name.
func (p *session) live(ctx context.Context, spec *StreamSpec, r source.Resource, opened func()) error {
	defer p.reads(spec)()
	for {
		s, err := p.begin(ctx, spec, r)
		if err != nil {
			return p.ended(err)
		}
		opened()
		end := s.left()
		if end == nil {
			end, err = p.readUntil(ctx, s)
		}
		switch {
		case err != nil:
			return p.ended(err)
		case end == nil:
			return nil
		case end.gone:
			return p.ended(p.bury(ctx, s))
		case end.left:
			return p.ended(p.retire(ctx, s, source.ReasonDeselected, "its namespace is not selected any more"))
		}
		if err := p.save(ctx); err != nil { // no mark may pass what the stream has published
			return p.ended(err)
		}
		p.close(s)
		switch {
		case end.yields:
			return yielded(s)
		case end.dropped:
			return nil
		}
		r = end.to
	}
}

// reads takes note that something of a spec is being read, until what it returns is called.
func (p *session) reads(spec *StreamSpec) (ended func()) {
	add := func(n int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.reading[spec.origin()] += n
	}
	add(1)
	return func() { add(-1) }
}

// readUntil reads a stream until ctx ends; then end is nil. Or until it has to end: then all that was read is in the log.
func (p *session) readUntil(ctx context.Context, s *stream) (end *ending, err error) {
	stop := make(chan struct{})
	running, reading := errgroup.WithContext(ctx)
	watching, enough := context.WithCancel(reading)
	running.Go(func() error {
		defer enough()
		return s.read(reading, stop)
	})
	running.Go(func() error {
		if end = p.outlived(watching, s); end != nil {
			close(stop)
		}
		return nil
	})
	if err := running.Wait(); err != nil {
		return nil, err
	}
	if end == nil || ctx.Err() != nil {
		return nil, nil //nolint:nilnil // ctx has ended
	}
	return end, s.tracker.Await(ctx)
}

// outlived waits until the resource that a stream reads is gone, or is served in other versions only, its namespace is not selected any more, it has to yield, or its spec is dropped. It
// returns nil when ctx ends.
func (p *session) outlived(ctx context.Context, s *stream) *ending {
	var lost time.Time
	for doubt := firstDoubt; ; doubt = longer(doubt) {
		var relabelled <-chan struct{}
		if s.spec.member != nil {
			_, _, _, relabelled = s.spec.member.stays()
		}
		var offers *source.Offers
		var changed <-chan struct{}
		if p.cfg.Catalog != nil {
			offers, changed = p.cfg.Catalog.Now()
		}
		end := s.left()
		if end == nil && offers != nil {
			end = s.unserved(ctx, offers)
		}
		var later <-chan time.Time
		switch {
		case end == nil:
			doubt, lost = firstDoubt, time.Time{}
		case end.doubtful:
			later = time.After(doubt)
		case s.waits(end, &lost):
			later = time.After(firstDoubt)
		default:
			return end
		}
		select {
		case <-changed:
		case <-relabelled:
		case <-later:
		case <-s.spec.drop:
			return &ending{dropped: true}
		case <-s.yield:
			return &ending{yields: true}
		case <-ctx.Done():
			return nil
		}
	}
}

// waits reports whether the watch may yet show what was deleted with a stream's namespace; lost is when that was seen to be gone.
func (s *stream) waits(end *ending, lost *time.Time) bool {
	if s.spec.member == nil || !end.gone || s.ledger.Len() == 0 {
		return false
	}
	if lost.IsZero() {
		*lost = time.Now()
	}
	return time.Since(*lost) < lastWords
}

// unserved returns why a stream ends as far as that depends on what is served; nil if it does not.
func (s *stream) unserved(ctx context.Context, offers *source.Offers) *ending {
	served := offers.Get(s.Group, s.Stream.Resource.Resource)
	switch {
	case served == nil:
		gone := s.session.cfg.Catalog.Gone(ctx, s.Stream.Resource)
		return &ending{gone: gone, doubtful: !gone}
	case s.isIn(served):
		if now, _ := served.In(s.Version); now != s.Stream.Resource {
			return &ending{to: now} // what is stored of it was wrong, or it was defined anew
		}
		return nil
	case s.spec.Pinned:
		return nil
	default:
		return &ending{to: served.Versions[0]}
	}
}

// isIn reports whether a stream's version is served. If not, its status says so.
func (s *stream) isIn(served *source.Served) bool {
	_, ok := served.In(s.Version)
	var why error
	if !ok {
		why = fmt.Errorf("version %s of %s.%s is not served any more, only %s is: name another version, or none",
			s.Version, s.Stream.Resource.Resource, s.Group, versionsOf(served))
	}
	s.status.instead(why)
	return ok
}

func versionsOf(s *source.Served) string {
	var all []string
	for _, r := range s.Versions {
		all = append(all, r.Version)
	}
	return strings.Join(all, ", ")
}

// versioned returns in which version a resource is read: in the one that was read before, while that is served. If it is not, all that is known moves to the
// version of r.
func (p *session) versioned(ctx context.Context, spec *StreamSpec, r source.Resource) (source.Stream, error) {
	at := spec.stream(r)
	before, ok := p.otherVersion(at)
	if spec.Pinned || p.cfg.Catalog == nil || !ok {
		return at, nil
	}
	for {
		offers, changed := p.cfg.Catalog.Now()
		if offers != nil {
			served := offers.Get(r.Group, r.Resource)
			if served == nil {
				return at, nil
			}
			if still, ok := served.In(before.Version); ok {
				return spec.stream(still), nil
			}
			return at, p.carry(ctx, before, at)
		}
		select {
		case <-changed:
		case <-spec.drop:
			return at, errDropped
		case <-ctx.Done():
			return at, ctx.Err()
		}
	}
}

// otherVersion returns the stream that the store knows at as in another version: the one that came furthest. There is none if the store knows at itself.
func (p *session) otherVersion(at source.Stream) (found source.Stream, ok bool) {
	position := ""
	for _, o := range p.stored() {
		if o.Group != at.Group || o.Resource.Resource != at.Resource.Resource || o.Namespace != at.Namespace {
			continue
		}
		if o.Version == at.Version {
			return o, false
		}
		if now := p.storedPosition(o.Name()); !ok || after(now, position) {
			found, ok, position = o, true, now
		}
	}
	return found, ok
}

func (p *session) storedPosition(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.Streams[name].Position
}
