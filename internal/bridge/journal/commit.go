// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

// Save returns when what is settled now is durable, however often that takes. The error is ctx's, or permanent.
func (j *Journal[S]) Save(ctx context.Context) error {
	return j.insist(ctx, func() error { return j.Commit(ctx) })
}

// insist repeats a commit until it succeeds, less and less often. The error is ctx's, or permanent.
func (j *Journal[S]) insist(ctx context.Context, commit func() error) error {
	for delay := Every; ; delay = min(2*delay, maxDelay) {
		if err := j.try(ctx, commit); err == nil || checkpoint.IsPermanent(err) {
			return err
		}
		if err := pause.For(ctx, delay); err != nil {
			return err
		}
	}
}

// Try makes one commit. A commit that fails is tried again with the next: until then a crash repeats work, and loses
// nothing. The error is ctx's, or permanent.
func (j *Journal[S]) Try(ctx context.Context) error {
	if err := j.try(ctx, func() error { return j.Commit(ctx) }); checkpoint.IsPermanent(err) {
		return err
	}
	return ctx.Err()
}

// try makes a commit, and logs what is news of how it went. Where ctx has ended the error is ctx's.
func (j *Journal[S]) try(ctx context.Context, commit func() error) error {
	err := commit()
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case checkpoint.IsPermanent(err):
		return err
	}
	switch n, since := j.condition.Observe(err, news); n {
	case health.Begins:
		j.cfg.Log.Warn("checkpoint is not saved; a restart would repeat work", "err", err)
	case health.Lasts:
		j.cfg.Log.Warn("checkpoint is still not saved", "since", since.Format(time.TimeOnly), "err", err)
	case health.Ends:
		j.cfg.Log.Info("checkpoint is saved again", "after", time.Since(since).Round(time.Millisecond).String())
	case health.Nothing:
	}
	return err
}

// Commit saves every stream's position and what changed in its ledger, and what is known of the log, in one batch.
func (j *Journal[S]) Commit(ctx context.Context) error {
	j.committing.Lock()
	defer j.committing.Unlock()
	j.mu.Lock()
	streams, resyncNew := slices.Clone(j.open), j.resyncNew
	j.mu.Unlock()
	marks := j.cfg.Offsets.Take() // before the ledgers, which must not be behind it
	b, changed := j.batch(streams)
	log, marked := j.logAt(marks)
	log.ResyncNew, marked = resyncNew, marked || resyncNew != log.ResyncNew
	if marked {
		b.Log = &log
	}
	if changed || marked {
		if err := j.cfg.Store.Commit(ctx, b); err != nil {
			for _, s := range streams { // the store may have what the batch named, or not
				s.stream.Doubt(b)
			}
			return err
		}
		j.log, j.logChanged = log, false
		clear(j.unsaved)
		for _, s := range streams {
			s.stream.Committed(b)
		}
	}
	j.saved.Store(time.Now().UnixNano())
	return nil
}

// batch collects what the streams have to save.
func (j *Journal[S]) batch(streams []named[S]) (b *checkpoint.Batch, changed bool) {
	b = &checkpoint.Batch{
		Identity: j.cfg.Identity, Streams: map[string]checkpoint.Stream{},
		Put: map[string]map[string]checkpoint.Row{}, Drop: map[string][]string{},
	}
	maps.Copy(b.Streams, j.unsaved)
	changed = len(j.unsaved) > 0
	for _, s := range streams {
		at, other, put, drop := s.stream.Changes()
		if other {
			b.Streams[s.name] = at
			changed = true
		}
		if len(put)+len(drop) > 0 {
			b.Put[s.name], b.Drop[s.name], changed = put, drop, true
		}
	}
	return b, changed
}

// logAt returns what to remember of the log, and whether that is new.
func (j *Journal[S]) logAt(marks map[int32]uint64) (log checkpoint.Log, changed bool) {
	log = j.log
	changed = j.logChanged
	if given := j.cfg.Epochs.Last(); given != log.Given {
		log.Given, changed = given, true
	}
	ends, ids := j.cfg.Offsets.Ends() // after the positions, whose changes they have to bound
	if len(marks) > 0 && (!maps.Equal(marks, log.Marks) || !maps.Equal(ends, log.Ends)) {
		log.Marks, log.Ends, log.IDs, changed = marks, ends, ids, true
	}
	return log, changed
}

// Exclusive calls f while nothing is committed. The caller holds no lock of a stream.
func (j *Journal[S]) Exclusive(f func()) {
	j.committing.Lock()
	defer j.committing.Unlock()
	f()
}

// NextResync returns a number for a resync or a repair: the one that is asked for, unless it was used. The number is
// durable with the next commit, which precedes its first use. Only a function that Exclusive calls may call it.
func (j *Journal[S]) NextResync(asked int64) int64 {
	if asked <= j.log.Resyncs {
		asked = max(j.log.Resyncs+1, time.Now().Unix())
	}
	j.log.Resyncs, j.logChanged = asked, true
	return asked
}

// NextTerm returns the number of a term: the one that is asked for, or a greater one than that of any writer before.
func (j *Journal[S]) NextTerm(asked int64) int64 {
	j.committing.Lock()
	defer j.committing.Unlock()
	return max(asked, j.log.Term+1)
}

// SaveTerm returns when the number of a term is durable. The error is ctx's, or permanent.
func (j *Journal[S]) SaveTerm(ctx context.Context, term int64) error {
	j.Exclusive(func() { j.log.Term, j.logChanged = term, true })
	return j.Save(ctx)
}
