// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// idleLook is how often an idle pipeline looks where the log ends.
const idleLook = time.Minute

// commits makes positions and ledgers durable about once a second. A commit that fails is tried again with the next:
// until it succeeds a crash repeats work, and loses nothing.
func (p *session) commits(ctx context.Context) error {
	tick := time.NewTicker(commitEvery)
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
		select {
		case <-p.met:
		default:
			continue // nothing was done yet
		}
		err := p.commit(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil
		case checkpoint.IsPermanent(err):
			return err
		}
		p.observeCommit(err)
	}
}

// observeCommit takes note of how a commit went, and logs what is news.
func (p *session) observeCommit(err error) {
	switch n, since := p.checkpoint.Observe(err, checkpointNews); n {
	case health.Begins:
		p.log.Warn("checkpoint is not saved; a restart would repeat work", "err", err)
	case health.Lasts:
		p.log.Warn("checkpoint is still not saved", "since", since.Format(time.TimeOnly), "err", err)
	case health.Ends:
		p.log.Info("checkpoint is saved again", "after", time.Since(since).Round(time.Millisecond).String())
	case health.Nothing:
	}
}

// lookAtEnd has the mark of an idle pipeline pass what others publish to the log. Otherwise the log would come to lack
// what is behind the mark.
func (p *session) lookAtEnd(ctx context.Context) {
	p.looked = time.Now()
	log, ok := p.sink.(sink.Log)
	begun, quiet := p.delivery.Offsets.Quiet()
	select {
	case <-p.met:
	default:
		return // nothing was done yet
	}
	if !ok || !quiet || p.sink.Ready() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, commitEvery)
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

// save returns when what is settled now is durable, however often that takes. The error is ctx's, or permanent.
func (p *session) save(ctx context.Context) error {
	return p.insist(ctx, func() error { return p.commit(ctx) })
}

// insist repeats a commit until it succeeds, less and less often. The error is ctx's, or permanent.
func (p *session) insist(ctx context.Context, commit func() error) error {
	for delay := commitEvery; ; delay = min(2*delay, maxCommitDelay) {
		err := commit()
		switch {
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case checkpoint.IsPermanent(err):
			return err
		}
		p.observeCommit(err)
		if err == nil {
			return nil
		}
		if err := pause.For(ctx, delay); err != nil {
			return err
		}
	}
}

// commit saves every stream's position and what changed in its ledger, and what is known of the log, in one batch.
func (p *session) commit(ctx context.Context) error {
	p.committing.Lock()
	defer p.committing.Unlock()
	p.mu.Lock()
	streams, resyncNew := slices.Clone(p.streams), p.resyncNew
	p.mu.Unlock()
	marks := p.delivery.Offsets.Take() // before the ledgers, which must not be behind it
	b, changed := p.batch(streams)
	log, marked := p.logAt(marks)
	log.ResyncNew, marked = resyncNew, marked || resyncNew != log.ResyncNew
	if marked {
		b.Log = &log
	}
	if changed || marked {
		if err := p.cfg.Store.Commit(ctx, b); err != nil {
			for _, s := range streams { // the store may have what the batch named, or not
				s.Doubt(b)
			}
			return err
		}
		p.logged, p.unlogged, p.unopenedSaved = log, false, nil
		for _, s := range streams {
			s.Committed(b)
		}
	}
	p.saved.Store(time.Now().UnixNano())
	return nil
}

// batch collects what the streams have to save.
func (p *session) batch(streams []*stream.Stream) (b *checkpoint.Batch, changed bool) {
	b = &checkpoint.Batch{
		Identity: p.cfg.Identity, Streams: map[string]checkpoint.Stream{},
		Put: map[string]map[string]checkpoint.Row{}, Drop: map[string][]string{},
	}
	maps.Copy(b.Streams, p.unopenedSaved)
	changed = len(p.unopenedSaved) > 0
	for _, s := range streams {
		at, other, put, drop := s.Changes()
		if other {
			b.Streams[s.Name] = at
			changed = true
		}
		if len(put)+len(drop) > 0 {
			b.Put[s.Name], b.Drop[s.Name], changed = put, drop, true
		}
	}
	return b, changed
}

// logAt returns what to remember of the log, and whether that is new.
func (p *session) logAt(marks map[int32]uint64) (log checkpoint.Log, changed bool) {
	log = p.logged
	changed = p.unlogged
	if given := p.epochs.Last(); given != log.Given {
		log.Given, changed = given, true
	}
	ends, ids := p.delivery.Offsets.Ends() // after the positions, whose changes they have to bound
	if len(marks) > 0 && (!maps.Equal(marks, log.Marks) || !maps.Equal(ends, log.Ends)) {
		log.Marks, log.Ends, log.IDs, changed = marks, ends, ids, true
	}
	return log, changed
}

// lastCommit saves what the stop has settled, although ctx has ended.
func (p *session) lastCommit(ctx context.Context) error {
	select {
	case <-p.met:
	default:
		return nil // nothing was done
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	defer p.cfg.Term.lost(cancel)()
	if err := p.commit(ctx); p.cfg.Term.held() {
		return err
	}
	return nil
}

// sample has every stream take one.
func (p *session) sample(now time.Time) {
	for _, s := range p.opened() {
		s.Figures.Rate.Sample(s.Figures.Metrics.Total(), now)
	}
}
