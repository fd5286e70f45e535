// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/membership"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/watching"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// What a pipeline reads may change while it runs. The entries are an input of the reconciler. Where what is not read
// any more is not drained in time, the session ends, and the next one begins with what is wanted then.

// errRespecified ends a session so that the next one reads something else.
var errRespecified = errors.New("something else is to be read")

// turn is what is to be read from now on.
type turn struct {
	specs []*StreamSpec
	// taken is closed when it is.
	taken chan struct{}
}

// turning is a turn that is being carried out.
type turning struct {
	*turn
	// deadline is when what stops has to have ended: the runs in stops, once those are known.
	deadline time.Time
	stops    []*run
	known    bool
}

// Respecify has the pipeline read specs instead of what it has read. Those that say what one says that is read already
// go on without a pause. Of the others nothing is read any more, and what was read is published and committed. Then the
// new ones begin, from what the checkpoint has. What no spec selects any more is deleted in the log. Respecify returns
// when the new ones have begun, or would have if the pipeline ran, or the pipeline or ctx has ended: then the pipeline
// may still be about to. It may be called while the pipeline runs, and once at a time.
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

// SetBuffer bounds the bytes between the API server and the broker's acknowledgement from now on. Where more are held,
// nothing is read until they have become fewer.
func (p *Pipeline) SetBuffer(limit int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.buffer = limit
	if s := p.current.Load(); s != nil {
		s.budget.SetLimit(limit)
		s.trimCache()
	}
}

// begin makes the next session the current one; restart ends it for another.
func (p *Pipeline) begin(to sink.Sink, restart func()) *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	if before := p.current.Load(); before != nil {
		before.uncount(p.next)
	}
	s := newSession(p, to)
	s.restart = restart
	s.budget.SetLimit(p.buffer)
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
	}
	return all
}

// pointers returns what points to specs.
func pointers(specs []StreamSpec) (all []*StreamSpec) {
	for i := range specs {
		all = append(all, &specs[i])
	}
	return all
}

// specs returns what is read, or is about to be.
func (p *Pipeline) specs() []*StreamSpec {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next
}

// applyConfig begins a turn: the next plan is of its specs.
func (r *reconciler) applyConfig(t *turn) {
	gone, come := r.entries.replace(t.specs)
	if r.cfg.Term != nil {
		for _, spec := range come {
			spec.Encoding.WriterTerm = int(r.term)
		}
	}
	r.cfg.Log.Info("what is read changes", "ends", readable(gone), "begins", readable(come),
		"stay", len(t.specs)-len(come))
	if r.turning != nil { // its caller waits no more
		close(r.turning.taken)
	}
	r.turning = &turning{turn: t, deadline: time.Now().Add(r.cfg.Drain)}
}

// due returns when a turn has to be complete, from now. There may be no turn.
func (t *turning) due(now time.Time) time.Duration {
	if t == nil {
		return watching.LongestDoubt
	}
	return max(t.deadline.Sub(now), 0)
}

// overdue returns errRespecified where a turn is not complete in time.
func (r *reconciler) overdue(ctx context.Context, now time.Time) error {
	if r.turning == nil || now.Before(r.turning.deadline) || ctx.Err() != nil || !r.isTurning() {
		return nil
	}
	r.cfg.Log.Warn("not everything was acknowledged of what is not read any more; the rest follows from the checkpoint",
		"objects", r.session.delivery.InFlight.Count())
	return errRespecified
}

// turned ends a turn that is complete.
func (r *reconciler) turned() {
	if r.turning != nil && !r.isTurning() {
		close(r.turning.taken)
		r.turning = nil
	}
}

// isTurning reports whether something of a turn is under way: a stream stops, or rows are moved.
func (r *reconciler) isTurning() bool {
	t := r.turning
	if !t.known {
		t.known = true
		for _, one := range r.runs {
			if one.stopping {
				t.stops = append(t.stops, one)
			}
		}
	}
	for _, one := range t.stops {
		if r.runs[one.Name] == one {
			return true
		}
	}
	for name := range r.busy {
		if a := r.assignments[name]; a != nil && a.Action == membership.Run {
			return true
		}
	}
	return false
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

// uncount removes the series of what the session had open when it ended, and does not come from any of next. It is
// called before the next session opens anything.
func (p *session) uncount(next []*StreamSpec) {
	for _, s := range p.journal.Opened() {
		if !slices.Contains(next, s.Spec) {
			s.Figures.Metrics.Drop()
		}
	}
}
