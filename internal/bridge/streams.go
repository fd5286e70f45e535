// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// forStreams is what the streams of a session need of it.
type forStreams struct{ *session }

// Save implements Session.
func (p forStreams) Save(ctx context.Context) error { return p.journal.Save(ctx) }

// Exclusive implements Session.
func (p forStreams) Exclusive(f func()) { p.journal.Exclusive(f) }

// Fenced implements Session.
func (p forStreams) Fenced() bool { return p.fenced }

// Interrupt implements Session.
func (p forStreams) Interrupt() {
	p.fail(&sink.InterruptedError{Target: p.cfg.Target, Cause: errNotGiven})
}

var errNotGiven = errors.New("the log has an epoch that the checkpoint has not given")

// Share implements Session. It is how much each stream may hold of deleted objects when all together hold half of the
// limit or more: with those that hold most they take the limit then.
func (p forStreams) Share() int64 {
	return p.budget.Limit() / 2 / int64(max(p.journal.Count(), 1))
}

// NextResync implements Session.
func (p forStreams) NextResync(asked int64) int64 { return p.journal.NextResync(asked) }

// Restored implements Session. It gives all other streams the epoch too, those that do not run now included: etcd was
// restored, and not every stream shows that. The caller is called by Exclusive, and holds no stream's mu.
func (p forStreams) Restored(s *stream.Stream, epoch uint64, cause *source.RewoundError) {
	why := s.Epochs.Why(cause)
	for _, other := range p.journal.BeginEpoch(epoch, why) {
		if other != s {
			other.Epochs.Restored(epoch, why, cause)
		}
	}
}
