// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/journal"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// idleLook is how often an idle pipeline looks where the log ends.
const idleLook = time.Minute

// keepUp does about once a second what has to be done however much happens: it makes positions and ledgers durable. The
// error is permanent.
func (p *session) keepUp(ctx context.Context) error {
	tick := time.NewTicker(journal.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		p.delivery.Broker.Observe(p.sink.Ready())
		if time.Since(p.looked) >= idleLook {
			p.lookAtEnd(ctx)
		}
		p.sample(time.Now())
		p.trimCache()
		if !p.hasMet() {
			continue // nothing was done yet
		}
		if err := p.journal.Try(ctx); checkpoint.IsPermanent(err) {
			return err
		}
	}
}

// lookAtEnd has the mark of an idle pipeline pass what others publish to the log. Otherwise the log would come to lack
// what is behind the mark.
func (p *session) lookAtEnd(ctx context.Context) {
	p.looked = time.Now()
	log, ok := p.sink.(sink.Log)
	begun, quiet := p.delivery.Offsets.Quiet()
	if !ok || !quiet || p.sink.Ready() != nil || !p.hasMet() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, journal.Every)
	defer cancel()
	bounds, err := log.Bounds(ctx, nil)
	if err != nil {
		return // it is asked again
	}
	ends := map[int32]uint64{}
	for partition, b := range bounds.Partitions {
		ends[partition] = b.Last
	}
	p.delivery.Offsets.Settle(begun, ends)
}

// lastCommit saves what the stop has settled, although ctx has ended.
func (p *session) lastCommit(ctx context.Context) error {
	if !p.hasMet() {
		return nil // nothing was done
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	defer p.cfg.Term.lost(cancel)()
	if err := p.journal.Commit(ctx); p.cfg.Term.held() {
		return err
	}
	return nil
}

// sample has every stream take one.
func (p *session) sample(now time.Time) {
	for _, s := range p.journal.Opened() {
		s.Figures.Rate.Sample(s.Figures.Metrics.Total(), now)
	}
}
