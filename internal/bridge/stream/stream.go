// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"context"
	"iter"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/audit"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/delivery"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/spec"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/watching"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// Stream is the far side of one reader.Reader: its Feed and its History. The reader calls Deliver and Note one at a
// time, but for bookmarks.
type Stream struct {
	Identity
	State
	Parts
	Env     *Environment
	Status  *watching.Status
	Figures delivery.Account
	Store   stored
	// Left are the namespaces of what was to be deleted when the stream began to retire; nil if it does not.
	Left map[string]struct{}
}

// Identity is what a stream reads, and how its events are written.
type Identity struct {
	source.Stream
	Name    string
	Spec    *spec.Stream
	Encoder *encode.Encoder
}

// At returns what the stream reads.
func (i *Identity) At() source.Stream { return i.Stream }

// Parts are those of a stream. Their fields are guarded as its own are.
type Parts struct {
	novelty     novelty
	Lists       listProgress
	Epochs      epochs
	Auditor     audit.Auditor
	Refusals    refusals
	Resyncer    resyncer
	Before      PreviousStates
	Publication Publication
}

// Assemble connects the parts of a stream with it.
func (s *Stream) Assemble() *Stream {
	s.novelty.Stream, s.Lists.Stream, s.Epochs.Stream = s, s, s
	s.Refusals.Stream, s.Resyncer.Stream, s.Before.Stream, s.Publication.Stream = s, s, s, s
	s.Before.Encoder, s.Before.Since = s.Encoder, &s.Since
	return s
}

// Admit implements source.Feed.
func (s *Stream) Admit(ctx context.Context, version string, size int) (source.Ticket, error) {
	budget, listed := s.Env.Budget, version == ""
	if !listed {
		if err := budget.AwaitGone(ctx, s.MayRead); err != nil {
			return 0, err
		}
	}
	if err := budget.Acquire(ctx, size, listed); err != nil {
		return 0, err
	}
	return source.Ticket(s.Tracker.Open(version, time.Now())), nil
}

// MayRead reports whether a watch may be read although much is held of deleted objects: where the stream itself holds
// no more of them than its share, so that one whose position stays does not stop others, or all that it has read is in
// the log, and its position saved. Then the next object shows that the version before is complete, and where the
// position moves it makes room.
func (s *Stream) MayRead() bool {
	if s.Ledger.Held() < s.Env.Share() {
		return true
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Tracker.Pending() == 0 && *s.Store.Position.Load() == s.resumable()
}

// Deliver implements source.Feed: what is not news is dropped, the rest waits for its turn.
func (s *Stream) Deliver(c source.Change) {
	key := c.Key()
	s.Mu.Lock()
	defer s.Mu.Unlock()
	known, exists := s.known(key)
	last := ledger.LastOf(&known, exists)
	c.Epoch, c.Version = s.Epoch, s.Number(c.ResourceVersion, &known)
	listed := c.Listed && c.Reason != source.ReasonRecovered
	if listed {
		s.Ledger.Seen(key)
		c.Reason = s.Lists.listing
	}
	if !listed {
		s.Refusals.refused.Shown(key, c.ResourceVersion)
	}
	s.novelty.compare(&c, last, listed)
	if s.novelty.leaves(&c, last) {
		s.drop(&c)
		return
	}
	if !listed && s.novelty.taken(&c) || !s.novelty.next(&c, last, listed) {
		s.Figures.Metrics.Suppressed.Inc()
		s.drop(&c)
		return
	}
	d := delivery.Delta{Change: c, Silent: s.Spec.SkipSnapshot && s.novelty.begins(&c, exists)}
	if !listed && s.Refusals.refused.Counted(key, c.ResourceVersion) {
		d.Counted = 1
	}
	s.enqueue(key, d)
}

// Known is known, and whether the log lacks the object, because the broker has refused it.
func (s *Stream) Known(key string) (row checkpoint.Row, exists, refused bool) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	row, exists = s.known(key)
	return row, exists, s.Refusals.refused.Has(key)
}

// enqueue puts a change in its object's queue; the caller holds mu.
func (s *Stream) enqueue(key string, d delivery.Delta) {
	o := s.Pending[key]
	if o == nil {
		if d.Silent && s.Spec.Filter == nil {
			row, _ := s.Ledger.Get(key)
			d.Date()
			s.remember(key, &d, row)
			s.drop(&d.Change)
			return
		}
		o = s.Env.Delivery.Object(&s.Publication, key)
		s.Pending[key] = o
	}
	known, exists := o.Known, o.Known != (checkpoint.Row{})
	if !exists {
		known, exists = s.Ledger.Get(key)
	}
	o.Known = ledger.Apply(known, exists, ledger.RowOfChange(&d.Change))
	if folded := o.Push(d, s.Spec.Latest); folded != nil {
		// It waits already. If it were added once more, while a worker is about to take what waits, the queue would
		// have it when nothing does.
		s.drop(&folded.Change)
		return
	}
	s.Env.Delivery.Add(o)
}

// drop ends a change's life: its ticket, its bytes and its body.
func (s *Stream) drop(c *source.Change) {
	c.Body.Release()
	c.Body = nil
	s.Env.Budget.Release(c.Size, c.Listed)
	if c.Reason == source.ReasonResync && c.Listed {
		s.Resyncer.Resync.Room.Release(1)
	}
	if c.Ticket != 0 {
		s.Tracker.Settle(uint64(c.Ticket))
	}
}

// Safe returns a position that the log is complete up to, also in what it has been told about the stream; empty if
// there is none. A stream that was rewound has none until it is where it was: the ledger may lack what existed.
func (s *Stream) Safe() string {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Saved.Unannounced != (checkpoint.Snapshot{}) || s.Saved.Replay.To != "" || s.Epochs.Distrusted ||
		s.Saved.Owes.List >= sequence.Reselect {
		return "" // of a position from before another selection the log need not have everything
	}
	return s.position()
}

// Resume implements source.History.
func (s *Stream) Resume() (string, iter.Seq2[source.Ident, bool], bool) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	position := s.position()
	if position == "" || s.Saved.Owes.List >= sequence.Reselect {
		return s.reached(position), nil, false
	}
	return position, s.Lists.knownIdents, true
}

// knownIdents yields what the log has, or is about to get, and whether it is what the object is, each as it is when its
// turn comes. Changes go on meanwhile.
func (s *listProgress) knownIdents(yield func(id source.Ident, current bool) bool) {
	tell := func(key string) bool {
		row, exists, refused := s.Known(key)
		return !exists || row.Deleted || yield(ledger.Ident(key, &row), !refused)
	}
	for key := range s.Ledger.All() {
		if !tell(key) {
			return
		}
	}
	for _, key := range s.unacknowledged() {
		if !tell(key) {
			return
		}
	}
}

// unacknowledged returns the keys of the objects that are on their way to the log, and that it does not have.
func (s *listProgress) unacknowledged() (keys []string) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for key := range s.Pending {
		if row, exists := s.Ledger.Get(key); !exists || row.Deleted {
			keys = append(keys, key)
		}
	}
	return keys
}
