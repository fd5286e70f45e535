// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// Named implements health.Gauged.
func (p *Pipeline) Named() (name string, ended bool) { return p.cfg.Name, p.ended.Load() != nil }

// Gauges implements health.Gauged.
func (p *Pipeline) Gauges() health.Gauges {
	s := p.current.Load()
	if s == nil {
		return health.Gauges{}
	}
	return s.gauges()
}

func (p *session) gauges() health.Gauges {
	gone := p.budget.Gone()
	g := health.Gauges{
		Running: true, Buffered: p.budget.Bytes(), Deleted: gone, Limit: p.budget.Limit(), Ready: p.takes(),
		Events: p.budget.Count(), Queued: int64(p.queue.Len()), Refused: p.refusals.Load(), Unmet: p.unmet(),
	}
	if at := p.saved.Load(); at != 0 {
		g.Saved = time.Unix(0, at)
	}
	for _, s := range p.opened() {
		g.Streams = append(g.Streams, s.gauges())
	}
	return g
}

func (s *stream) gauges() health.StreamGauges {
	g := health.StreamGauges{Name: s.name, Objects: s.ledger.Len(), Watching: s.status.watching()}
	if at, ok := s.tracker.Oldest(); ok {
		g.Unsettled = time.Since(at)
	}
	if s.olds != nil {
		g.KeepsOlds = true
		g.Olds, g.OldBytes = s.olds.Total()
	}
	return g
}

// published counts an attempt that the broker has acknowledged.
func (s *stream) published(a *attempt, now time.Time) {
	s.metrics.Publish.Observe(now.Sub(a.published).Seconds())
	if a.marker != nil {
		return
	}
	s.metrics.Published(a.delta.Op.String(), string(a.delta.Reason)).Inc()
	if !a.written.IsZero() {
		s.metrics.Delivery.Observe(max(0, now.Sub(a.written).Seconds()))
	}
}

// writtenAt returns when the object of an encoded attempt was written; zero where it was not watched, or does not tell.
func writtenAt(a *attempt) (t time.Time) {
	if c := &a.delta.Change; a.marker == nil && c.Reason == source.ReasonWatch && c.Wrote(c.Written) {
		t = time.Unix(c.Written, 0)
	}
	return t
}
