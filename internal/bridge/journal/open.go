// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/handover"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// Open opens a stream: open makes it of what is stored, and it is part of every commit from then on. The function is
// called while the journal is locked, and must not call it.
func (j *Journal[S]) Open(at source.Stream, open func(Stored) S) (S, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.add(at.Name(), true, open)
}

// OpenRetiring is [Journal.Open] of a stream whose objects are to be deleted in the log, and says why. The next commit
// saves that it retires.
func (j *Journal[S]) OpenRetiring(at source.Stream, why string, open func(Stored) S) (S, error) {
	j.committing.Lock()
	defer j.committing.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	name := at.Name()
	saved := j.stored.Streams[name]
	before := saved.Retiring
	j.stored.Streams[name] = ledger.Retiring(&saved, j.cfg.Epochs.Next, saved.Position, why)
	return j.add(name, before, open)
}

// Close makes an open stream one that is only stored, with its rows. Nothing of it is read any more, and all that was
// read is in the log.
func (j *Journal[S]) Close(name string, rows func() map[string]checkpoint.Row) {
	j.committing.Lock()
	defer j.committing.Unlock()
	saved, other, _, _ := j.find(name).Changes()
	if other { // another stream may have ended its history since it was saved
		j.saveUnopened(name, saved)
	}
	has := rows()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.drop(name)
	j.stored.Streams[name], j.stored.Rows[name] = saved, has
}

// Forget removes an open stream for good. A stream of its name that begins later takes a new epoch. The error is ctx's,
// or permanent.
func (j *Journal[S]) Forget(ctx context.Context, name string) error {
	return j.insist(ctx, func() error {
		j.committing.Lock()
		defer j.committing.Unlock()
		b := &checkpoint.Batch{Identity: j.cfg.Identity, Log: &j.log, Forget: []string{name}}
		if err := j.cfg.Store.Commit(ctx, b); err != nil {
			return err
		}
		j.logChanged = false
		delete(j.unsaved, name)
		j.mu.Lock()
		defer j.mu.Unlock()
		j.drop(name)
		delete(j.stored.Streams, name)
		delete(j.stored.Rows, name)
		return nil
	})
}

// Move moves rows and positions of streams that are only stored to those that take them over, in one commit. What is
// left of a stream is being deleted in the log from then on. The error is ctx's, or permanent.
func (j *Journal[S]) Move(ctx context.Context, h handover.Handover) error {
	return j.insist(ctx, func() error {
		j.committing.Lock()
		defer j.committing.Unlock()
		j.mu.Lock()
		m := handover.Plan(j.stored, h, j.cfg.Epochs.Next)
		j.mu.Unlock()
		log := j.log
		log.Given = j.cfg.Epochs.Last()
		m.Batch.Identity, m.Batch.Log = j.cfg.Identity, &log
		if err := j.cfg.Store.Commit(ctx, m.Batch); err != nil {
			return err
		}
		j.log, j.logChanged = log, false
		j.mu.Lock()
		defer j.mu.Unlock()
		for _, name := range m.Batch.Forget {
			delete(j.stored.Streams, name)
			delete(j.stored.Rows, name)
			delete(j.unsaved, name)
		}
		for name, saved := range m.Batch.Streams {
			j.stored.Streams[name], j.stored.Rows[name] = saved, m.Rows[name]
			delete(j.unsaved, name)
			j.cfg.Log.Info("stream takes over", "stream", name, "epoch", saved.Epoch, "objects", len(m.Rows[name]),
				"from", saved.Owes.From, "retires", saved.Retiring)
		}
		return nil
	})
}
