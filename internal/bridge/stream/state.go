// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"cmp"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/delivery"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// State is what is known of a stream.
type State struct {
	Tracker *ledger.Tracker

	// Mu guards the ledger, the pending changes of the objects, and what follows.
	Mu      sync.Mutex
	Ledger  *ledger.Ledger
	Pending map[string]*delivery.Object
	// Saved is what the store has to say of the stream besides its position.
	Saved checkpoint.Stream
	// Epoch and since are those of what is read now. Saved may have those of the list that follows already.
	Epoch uint64
	Since atomic.Uint64
	// Held is where the position stays until the next epoch begins, where a watch has shown that what is read does not
	// compare with what the log has; else it is empty.
	Held string
}

// known is the newest that was handed over of an object, published or not.
func (s *State) known(key string) (checkpoint.Row, bool) {
	if o := s.Pending[key]; o != nil {
		return o.Known, true
	}
	return s.Ledger.Get(key)
}

// remember moves the ledger to what was just published, or passed over; place says where the object's last event is.
func (s *State) remember(key string, d *delivery.Delta, place checkpoint.Row) {
	next := ledger.RowOfChange(&d.Change)
	next.Rejected, next.Digest, next.Form = d.Rejected, d.Digest, d.Form
	next.Sequence, next.Partition, next.Fresh = place.Sequence, place.Partition, place.Fresh
	known, exists := s.Ledger.Get(key)
	s.Ledger.Put(key, ledger.Apply(known, exists, next))
}

// Number returns the number of a version: of one that is no number, the one that the row has for it, or a new one. The
// caller holds mu.
func (s *State) Number(version string, row *checkpoint.Row) uint64 {
	n, ok := checkpoint.Number(version)
	switch {
	case ok:
		return n
	case row != nil && row.ResourceVersion == version:
		return row.Version
	}
	s.Saved.Counter++
	return s.Saved.Counter
}

// order returns what the numbers of the stream's events depend on now; the caller holds mu.
func (s *State) order() sequence.Stream {
	return sequence.Stream{
		Epoch: s.Epoch, Since: s.Since.Load(), Position: ledger.Numeric(s.position()), Owes: s.Saved.Owes.List,
		Rewound: ledger.Numeric(s.Saved.Replay.To), Floors: s.Saved.Floors,
	}
}

// compares reports whether versions of the stream compare with that of a row.
func (s *State) compares(row *checkpoint.Row) bool { return row.Epoch >= s.Since.Load() }

// is reports whether a row is that state, which was written then.
func (s *State) is(row *checkpoint.Row, id source.Ident, written int64) bool {
	return !row.Deleted && s.compares(row) && ledger.SameVersion(row, id, written)
}

// position is the one from which a watch loses nothing; the caller holds mu.
func (s *State) position() string {
	return cmp.Or(s.Held, s.Tracker.Position())
}

// resumable returns the position that a commit saves: none where everything is listed again. The caller holds mu.
func (s *State) resumable() string {
	if s.Saved.Owes.List >= sequence.Republish {
		return ""
	}
	return s.position()
}

// reached is the newest version that compares: of the position, or of what the log has; empty where there is none. A
// server that is older does not compare. The caller holds mu.
func (s *State) reached(position string) string {
	newest := s.Ledger.Newest(s.Since.Load())
	for _, f := range s.Saved.Floors {
		newest = max(newest, f.Position)
	}
	switch {
	case s.Saved.Owes.List < sequence.Republish && ledger.Numeric(position) >= newest:
		return position
	case newest == 0 || s.Saved.Counter > 0:
		return ""
	}
	return strconv.FormatUint(newest, 10)
}

// Newest is [State.reached] of what was published by now.
func (s *State) Newest() string {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.reached(s.position())
}
