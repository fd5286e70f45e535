// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"sync/atomic"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
)

// stored is what the store has of a stream. It is the committer's own, but for the position.
type stored struct {
	// committed is what was committed last. Known: the store knows the stream.
	committed checkpoint.Stream
	known     bool
	// position is the one that the store has.
	position atomic.Pointer[string]
}

// Changes returns what a commit must hold of the stream, and whether the store has something else of it than at.
func (s *stream) Changes() (at checkpoint.Stream, changed bool, put map[string]checkpoint.Row, drop []string) {
	at, put, drop = s.checkpoint()
	return at, !at.Equal(&s.store.committed) || !s.store.known, put, drop
}

// Committed takes note that the store has what a batch names of the stream.
func (s *stream) Committed(b *checkpoint.Batch) {
	if len(b.Put[s.name])+len(b.Drop[s.name]) > 0 {
		s.ledger.Committed()
	}
	if at, ok := b.Streams[s.name]; ok {
		s.store.committed, s.store.known = at, true
		s.store.position.Store(&at.Position)
	}
}

// Doubt takes note that the store may have what a batch names of the stream, or not. All of it is saved again, whatever
// it is by then.
func (s *stream) Doubt(b *checkpoint.Batch) {
	s.ledger.Untake(b.Put[s.name], b.Drop[s.name])
	if _, named := b.Streams[s.name]; named {
		s.store.known = false
	}
}

// Forgotten has the next commit name the stream, unless the store has known it as it is now.
func (s *stream) Forgotten(unless bool) { s.store.known = s.store.known && unless }

// Close ends what is counted of the stream.
func (s *stream) Close() {
	s.ledger.Uncount()
	if s.before.cache != nil {
		s.before.cache.Close()
	}
	s.refusals.refused.Close()
	s.account.Metrics.Drop()
}

// Retire has the objects of the stream deleted in the log under an epoch of their own, and says why.
func (s *stream) Retire(epoch func() uint64, why string) {
	s.ledger.Uncount() // nothing of it is read, and it is forgotten as a whole
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved = ledger.Retiring(&s.saved, epoch, s.position(), why)
	s.epoch = s.saved.Epoch
}

// checkpoint returns what a commit must hold. A row moves and its ticket is settled under mu, so that the rows are
// never behind the position.
func (s *stream) checkpoint() (checkpoint.Stream, map[string]checkpoint.Row, []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	position := s.position()
	if position != "" && s.lists.complete != nil && (position == s.lists.complete.Version ||
		ledger.After(position, s.lists.complete.Version)) {
		s.lists.endOwed() // a commit has both, or a dead process would leave a list that is not owed
	}
	if position != "" && !ledger.After(s.saved.Replay.To, position) && !s.ledger.Behind(s.refusals.refused.Has) {
		s.saved.Replay = checkpoint.Replay{}
	}
	s.saved.Floors = above(s.saved.Floors, ledger.Numeric(position))
	saved := s.saved
	saved.Position = s.resumable()
	// Else a tombstone may be what tells which changes are left to the next epoch.
	if s.epochs.mismatch == nil && saved.Owes.List == sequence.Nothing {
		s.ledger.Prune(position)
	}
	put, drop := s.ledger.Take()
	return saved, put, drop
}

// above returns the floors that a position has not passed.
func above(floors []sequence.Floor, position uint64) (left []sequence.Floor) {
	for _, f := range floors {
		if f.Position > position {
			left = append(left, f)
		}
	}
	return left
}
