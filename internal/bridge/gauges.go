// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
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
		Running: true, Buffered: p.budget.Bytes(), Deleted: gone, Limit: p.budget.Limit(), Ready: p.delivery.Broker.Takes(),
		Events: p.budget.Count(), Queued: int64(p.delivery.Len()), Refused: p.refusals.Load(), Unmet: p.unmet(),
	}
	if at := p.saved.Load(); at != 0 {
		g.Saved = time.Unix(0, at)
	}
	for _, s := range p.opened() {
		g.Streams = append(g.Streams, s.Gauges())
	}
	return g
}
