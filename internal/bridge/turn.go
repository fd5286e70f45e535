// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// What a pipeline reads may be another thing while it runs. What stays is not touched; what goes is drained and becomes a stream that is only stored; what comes begins when
// that is done, as a session does: from what the store has. Where the drain does not end in time, the session does, and the next one begins with what is wanted then.

var (
	// errDropped ends what is read of a spec that is dropped.
	errDropped = errors.New("it is not read any more")
	// errRespecified ends a session so that the next one reads something else.
	errRespecified = errors.New("something else is to be read")
)

// turn is what is to be read from now on.
type turn struct {
	specs []*StreamSpec
	// taken is closed when it is.
	taken chan struct{}
}

// dropped reports whether a spec is not to be read any more.
func (spec *StreamSpec) dropped() bool {
	select {
	case <-spec.drop:
		return true
	default:
		return false
	}
}

// Respecify has the pipeline read specs instead of what it has read. Those that say what one says that is read already go on without a pause. Of the others nothing is read
// any more, what was read is published and committed, and what the checkpoint has of them stays; then the new ones begin, from what the checkpoint has, as after a restart. It
// returns when that is so, or would be if the pipeline ran, or the pipeline or ctx has ended: then the pipeline may still be about to. It may be called while the pipeline runs, and once at a time.
func (p *Pipeline) Respecify(ctx context.Context, specs []StreamSpec) {
	p.mu.Lock()
	p.next = succeed(p.next, specs)
	t, s := &turn{specs: p.next, taken: make(chan struct{})}, p.current.Load()
	p.mu.Unlock()
	if s == nil {
		return // the first session has them
	}
	select {
	case <-s.met:
	default: // nothing is read yet, and who knows when
		s.restart()
	}
	select {
	case s.turns <- t:
	case <-s.over: // the next session has them
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-t.taken:
	case <-s.over:
	case <-ctx.Done():
	}
}

// SetBuffer bounds the bytes between the API server and the broker's acknowledgement from now on. Where more are held, nothing is read until they have become fewer.
func (p *Pipeline) SetBuffer(limit int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.buffer = limit
	if s := p.current.Load(); s != nil {
		s.budget.setLimit(limit)
	}
}

// begin makes the next session the current one; restart ends it for another.
func (p *Pipeline) begin(to sink.Sink, restart func()) *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	if before := p.current.Load(); before != nil {
		before.uncount(p.next)
	}
	s := newSession(&p.cfg, to)
	s.term, s.epochs, s.pasts, s.asked, s.restart = &p.term, &p.epochs, &p.pasts, p.next, restart
	s.budget.setLimit(p.buffer)
	clear(s.unbegun)
	for _, spec := range s.asked {
		s.unbegun[spec] = struct{}{}
	}
	p.current.Store(s)
	return s
}

// succeed returns next, in its order, with those of now in it that say the same.
func succeed(now []*StreamSpec, next []StreamSpec) []*StreamSpec {
	all, left := make([]*StreamSpec, len(next)), slices.Clone(now)
	for i := range next {
		same := slices.IndexFunc(left, func(o *StreamSpec) bool { return o.Says != "" && o.Says == next[i].Says })
		if same >= 0 {
			all[i] = left[same]
			left = slices.Delete(left, same, same+1)
			continue
		}
		all[i] = &next[i]
		all[i].drop = make(chan struct{})
	}
	return all
}

// specs returns what is read, or is about to be.
func (p *Pipeline) specs() []*StreamSpec {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next
}

// specs returns what is read.
func (p *session) specs() []*StreamSpec {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked == nil {
		for i := range p.cfg.Streams {
			p.asked = append(p.asked, &p.cfg.Streams[i])
		}
	}
	return p.asked
}

// edition returns the number of what is read, and what is closed when that has become another one.
func (p *session) edition() (number int, edited <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.editions, p.edited
}

// beginReading reads a spec in a goroutine of its own.
func (p *session) beginReading(ctx context.Context, reading *errgroup.Group, spec *StreamSpec) {
	done := make(chan struct{})
	p.readers[spec] = done
	reading.Go(func() error {
		defer close(done)
		return p.read(ctx, spec)
	})
}

// takeTurns reads something else whenever that is asked for, until ctx ends. The error is errRespecified.
func (p *session) takeTurns(ctx context.Context, reading *errgroup.Group) error {
	for {
		select {
		case t := <-p.turns:
			if err := p.take(ctx, reading, t.specs); err != nil {
				return err
			}
			close(t.taken)
		case <-ctx.Done():
			return nil
		}
	}
}

// take reads specs from now on.
func (p *session) take(ctx context.Context, reading *errgroup.Group, specs []*StreamSpec) error {
	gone, come := p.respecify(specs)
	p.log.Info("what is read changes; what ends is drained, and its position stays", "ends", readable(gone), "begins", readable(come), "stay", len(specs)-len(come))
	for _, spec := range gone {
		close(spec.drop)
	}
	draining, cancel := context.WithTimeout(ctx, p.cfg.Drain)
	defer cancel()
	switch err := p.await(draining, gone); {
	case ctx.Err() != nil:
		return nil // the session drains all
	case err != nil:
		p.log.Warn("not everything was acknowledged of what is not read any more; the rest follows from the checkpoint", "objects", p.busy.count())
		return errRespecified
	}
	p.mu.Lock()
	p.editions++
	close(p.edited)
	p.edited = make(chan struct{})
	p.mu.Unlock()
	for _, spec := range come {
		p.beginReading(ctx, reading, spec)
	}
	return nil
}

// readable names specs for a person.
func readable(specs []*StreamSpec) (names []string) {
	for _, spec := range specs {
		if spec.Namespace == "" {
			names = append(names, spec.Resource)
		} else {
			names = append(names, spec.Namespace+"/"+spec.Resource)
		}
	}
	return names
}

// respecify makes specs those that are read, and returns which of those before are not among them, and which are new.
func (p *session) respecify(specs []*StreamSpec) (gone, come []*StreamSpec) {
	before := p.specs()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = specs
	for _, spec := range before {
		if !slices.Contains(specs, spec) {
			gone = append(gone, spec)
			delete(p.unbegun, spec)
			p.untell(spec)
		}
	}
	for _, spec := range specs {
		if !slices.Contains(before, spec) {
			come = append(come, spec)
			p.unbegun[spec] = struct{}{}
			if p.cfg.Term != nil {
				spec.Encoding.WriterTerm = int(*p.term)
			}
		}
	}
	return gone, come
}

// untell forgets what is not known of a spec that is dropped, but for what others are waiting for too: they will say when it is known. The caller holds mu.
func (p *session) untell(spec *StreamSpec) {
	waits := func(is func(*StreamSpec) bool) bool {
		return slices.ContainsFunc(p.asked, func(o *StreamSpec) bool { return o.Resource == spec.Resource && is(o) })
	}
	if !waits(func(o *StreamSpec) bool { return o.NamespaceSelector == nil && p.reading[o] == 0 }) {
		delete(p.unknown, spec.Resource)
	}
	if !waits(func(o *StreamSpec) bool { return o.NamespaceSelector != nil }) {
		delete(p.unknown, spec.membership())
	}
}

// uncount removes the series of what the session had open when it ended, and does not come from any of next. It is called before the next session opens anything.
func (p *session) uncount(next []*StreamSpec) {
	for _, s := range p.opened() {
		if !slices.Contains(next, s.spec.origin()) {
			s.metrics.drop()
		}
	}
}

// await waits until nothing is read any more of specs that are dropped, nor by wildcards of what others name now. The error is ctx's.
func (p *session) await(ctx context.Context, gone []*StreamSpec) error {
	for _, spec := range gone {
		if done := p.readers[spec]; done != nil {
			select {
			case <-done:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		delete(p.readers, spec)
		p.mu.Lock()
		delete(p.reading, spec)
		p.untell(spec) // what was asked before it was dropped may have been answered since
		p.mu.Unlock()
	}
	for p.yielding() {
		if err := pause.For(ctx, yieldLook); err != nil {
			return err
		}
	}
	return nil
}

// yielding has the streams of wildcards end that other specs name, and reports whether there are any left.
func (p *session) yielding() (any bool) {
	if p.cfg.Catalog == nil {
		return false
	}
	offers, _ := p.cfg.Catalog.Now()
	for _, s := range p.opened() {
		if s.spec.Wildcard == nil || offers == nil {
			continue
		}
		served := offers.Get(s.Group, s.Stream.Resource.Resource)
		if served == nil {
			served = &source.Served{Group: s.Group, Resource: s.Stream.Resource.Resource, Versions: []source.Resource{s.Stream.Resource}}
		}
		if !p.claimed(s.spec, served, offers) {
			continue
		}
		any = true
		select {
		case s.yield <- struct{}{}:
		default: // it is asked already
		}
	}
	return any
}
