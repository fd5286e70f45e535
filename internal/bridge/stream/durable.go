// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"sync/atomic"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
)

// stored is what the store has of a stream. Only a commit reads and writes it; the position may be read at any time.
type stored struct {
	// committed is what was committed last. Known: the store knows the stream.
	committed checkpoint.Stream
	known     bool
	// next is what the last commit looked at. It is kept here because a commit looks at very many streams.
	next checkpoint.Stream
	// Position is the one that the store has.
	Position atomic.Pointer[string]
}

// Changes returns what a commit must hold of the stream, and whether the store has something else of it than at.
func (s *Stream) Changes() (at checkpoint.Stream, changed bool, put map[string]checkpoint.Row, drop []string) {
	s.Store.next, put, drop = s.Checkpoint()
	return s.Store.next, !s.Store.next.Equal(&s.Store.committed) || !s.Store.known, put, drop
}

// Committed takes note that the store has what a batch names of the stream.
func (s *Stream) Committed(b *checkpoint.Batch) {
	if len(b.Put[s.Name])+len(b.Drop[s.Name]) > 0 {
		s.Ledger.Committed()
	}
	if at, ok := b.Streams[s.Name]; ok {
		position := at.Position
		s.Store.committed, s.Store.known = at, true
		s.Store.Position.Store(&position)
	}
}

// Doubt takes note that the store may have what a batch names of the stream, or not. All of it is saved again, whatever
// it is by then.
func (s *Stream) Doubt(b *checkpoint.Batch) {
	s.Ledger.Untake(b.Put[s.Name], b.Drop[s.Name])
	if _, named := b.Streams[s.Name]; named {
		s.Store.known = false
	}
}

// Close ends what is counted of the stream.
func (s *Stream) Close() {
	s.Ledger.Uncount()
	if s.Before.Cache != nil {
		s.Before.Cache.Close()
	}
	s.Refusals.refused.Close()
	s.Figures.Metrics.Drop()
}

// Retire has the objects of the stream deleted in the log under an epoch of their own, and says why.
func (s *Stream) Retire(epoch func() uint64, why string) {
	s.Ledger.Uncount() // nothing of it is read, and it is forgotten as a whole
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Saved = ledger.Retiring(&s.Saved, epoch, s.position(), why)
	s.Epoch = s.Saved.Epoch
}

// Checkpoint returns what a commit must hold. A row moves and its ticket is settled under mu, so that the rows are
// never behind the position.
func (s *Stream) Checkpoint() (checkpoint.Stream, map[string]checkpoint.Row, []string) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	position := s.position()
	if position != "" && s.Lists.Complete != nil && (position == s.Lists.Complete.Version ||
		ledger.After(position, s.Lists.Complete.Version)) {
		s.Lists.endOwed() // a commit has both, or a dead process would leave a list that is not owed
	}
	replays := s.Saved.Replay != (checkpoint.Replay{}) // else no row need be looked at
	if replays && position != "" && !ledger.After(s.Saved.Replay.To, position) &&
		!s.Ledger.Behind(s.Refusals.refused.Has) {
		s.Saved.Replay = checkpoint.Replay{}
	}
	s.Saved.Floors = above(s.Saved.Floors, ledger.Numeric(position))
	saved := s.Saved
	saved.Position = s.resumable()
	// Else a tombstone may be what tells which changes are left to the next epoch.
	if s.Epochs.Mismatch == nil && saved.Owes.List == sequence.Nothing {
		s.Ledger.Prune(position)
	}
	put, drop := s.Ledger.Take()
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
