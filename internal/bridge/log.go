// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/recovery"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source/catalog"
)

// meetLog finds out what the log has that the checkpoint does not know, or has no more, and commits that. It waits for
// the broker; the error is ctx's, or permanent.
func (p *session) meetLog(ctx context.Context) error {
	log, ok := p.sink.(sink.Log)
	if !ok {
		return nil
	}
	found, err := recovery.Run(ctx, recovery.Input{
		Pipeline: p.cfg.Name, Siblings: p.cfg.Siblings, Identity: p.cfg.Identity, Specs: p.entries.all(),
		State: p.journal.State(), Log: log,
		Epochs: &p.epochs, Offers: sync.OnceValue(func() *catalog.Offers { return p.offered(ctx) }), Logger: p.cfg.Log,
	})
	if err != nil {
		return err
	}
	if err := p.journal.Adopt(ctx, found.Batch, found.Known); err != nil {
		return err
	}
	if found.Lost && !p.counted {
		p.cfg.Metrics.Pipeline(p.cfg.Name).Losses.Inc()
	}
	p.delivery.Offsets.Start(found.Ends, found.IDs)
	p.fenced = found.Fenced
	if !p.fenced && (!p.cfg.Unfenced || p.cfg.Term != nil) {
		p.delivery.UseLanes()
	}
	return nil
}

// firstAnswer is how long is waited for the first answer of an API server that a catalog asks.
const firstAnswer = 10 * time.Second

// offered returns what is served. It is nothing where no catalog asks for that, or none has an answer in time.
func (p *session) offered(ctx context.Context) *catalog.Offers {
	if p.cfg.Catalog == nil { // in tests
		return &catalog.Offers{}
	}
	offers, changed := p.cfg.Catalog.Now()
	if offers != nil {
		return offers
	}
	select {
	case <-changed:
		offers, _ = p.cfg.Catalog.Now()
		return offers
	case <-time.After(firstAnswer):
	case <-ctx.Done():
	}
	return &catalog.Offers{}
}
