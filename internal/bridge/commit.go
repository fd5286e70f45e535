// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

// commits makes positions and ledgers durable about once a second. A commit that fails is tried again with the next:
// until it succeeds a crash repeats work, and loses nothing.
func (p *Pipeline) commits(ctx context.Context) error {
	tick := time.NewTicker(commitEvery)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		p.broker.observe(p.cfg.Sink.Ready())
		err := p.commit(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil
		case err != nil && !failing:
			p.log.Error("checkpoint is not saved; a restart would repeat work", "err", err)
		case err == nil && failing:
			p.log.Info("checkpoint is saved again")
		}
		failing = err != nil
	}
}

// save returns when what is settled now is durable, however often that takes; commits tells of failures. The error is ctx's.
func (p *Pipeline) save(ctx context.Context) error {
	for p.commit(ctx) != nil {
		if err := pause.For(ctx, commitEvery); err != nil {
			return err
		}
	}
	return nil
}

// commit saves every stream's position and what changed in its ledger, in one batch.
func (p *Pipeline) commit(ctx context.Context) error {
	p.committing.Lock()
	defer p.committing.Unlock()
	b := &checkpoint.Batch{
		Identity: p.cfg.Identity, Streams: map[string]checkpoint.Stream{},
		Put: map[string]map[string]checkpoint.Row{}, Drop: map[string][]string{},
	}
	streams := p.opened()
	changed := false
	for _, s := range streams {
		at, put, drop := s.checkpoint()
		if at != s.committed {
			b.Streams[s.name] = at
			changed = true
		}
		b.Put[s.name], b.Drop[s.name] = put, drop
		changed = changed || len(put)+len(drop) > 0
	}
	if changed {
		if err := p.cfg.Store.Commit(ctx, b); err != nil {
			for _, s := range streams {
				s.ledger.Untake(b.Put[s.name], b.Drop[s.name])
			}
			return err
		}
		for _, s := range streams {
			if at, ok := b.Streams[s.name]; ok {
				s.committed = at
			}
		}
	}
	p.saved.Store(time.Now().UnixNano())
	return nil
}

// lastCommit saves what the stop has settled, although ctx has ended.
func (p *Pipeline) lastCommit(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	return p.commit(ctx)
}
