// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"context"
	"iter"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/delivery"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/spec"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// stream is the far side of one reader.Reader: its Feed and its History. The reader calls Deliver and Note one at a
// time, but for bookmarks.
type stream struct {
	identity
	state
	parts
	env     *Environment
	status  *status
	account delivery.Account
	store   stored
	// left are the namespaces of what was to be deleted when the stream began to retire; nil if it does not.
	left map[string]struct{}
}

// identity is what a stream reads, and how its events are written.
type identity struct {
	source.Stream
	name    string
	spec    *spec.Stream
	encoder *encode.Encoder
}

// At returns what the stream reads.
func (i *identity) At() source.Stream { return i.Stream }

// state is what is known of a stream.
type state struct {
	tracker *ledger.Tracker

	// mu guards the ledger, the pending changes of the objects, and what follows.
	mu      sync.Mutex
	ledger  *ledger.Ledger
	pending map[string]*delivery.Object
	// saved is what the store has to say of the stream besides its position.
	saved checkpoint.Stream
	// epoch and since are those of what is read now. Saved may have those of the list that follows already.
	epoch uint64
	since atomic.Uint64
}

// parts are those of a stream. Their fields are guarded as its own are.
type parts struct {
	novelty     novelty
	lists       listProgress
	epochs      epochs
	auditor     auditor
	refusals    refusals
	resyncer    resyncer
	before      previousStates
	publication publication
}

// assemble connects the parts of a stream with it.
func (s *stream) assemble() *stream {
	s.novelty.stream, s.lists.stream, s.epochs.stream, s.auditor.stream = s, s, s, s
	s.refusals.stream, s.resyncer.stream, s.before.stream, s.publication.stream = s, s, s, s
	return s
}

// Admit implements source.Feed.
func (s *stream) Admit(ctx context.Context, version string, size int) (source.Ticket, error) {
	budget, listed := s.env.Budget, version == ""
	if !listed {
		if err := budget.AwaitGone(ctx, s.mayRead); err != nil {
			return 0, err
		}
	}
	if err := budget.Acquire(ctx, size, listed); err != nil {
		return 0, err
	}
	return source.Ticket(s.tracker.Open(version, time.Now())), nil
}

// mayRead reports whether a watch may be read although much is held of deleted objects: where the stream itself holds
// no more of them than its share, so that one whose position stays does not stop others, or all that it has read is in
// the log, and its position saved. Then the next object shows that the version before is complete, and where the
// position moves it makes room.
func (s *stream) mayRead() bool {
	if s.ledger.Held() < s.env.Share() {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tracker.Pending() == 0 && *s.store.position.Load() == s.resumable()
}

// Deliver implements source.Feed: what is not news is dropped, the rest waits for its turn.
func (s *stream) Deliver(c source.Change) {
	key := c.Key()
	s.mu.Lock()
	defer s.mu.Unlock()
	known, exists := s.known(key)
	last := ledger.LastOf(&known, exists)
	c.Epoch, c.Version = s.epoch, s.number(c.ResourceVersion, &known)
	listed := c.Listed && c.Reason != source.ReasonRecovered
	if listed {
		s.ledger.Seen(key)
		c.Reason = s.lists.listing
	}
	if !listed {
		s.refusals.refused.Shown(key, c.ResourceVersion)
	}
	s.novelty.compare(&c, last, listed)
	if s.novelty.leaves(&c, last) {
		s.drop(&c)
		return
	}
	if !listed && s.novelty.taken(&c) || !s.novelty.next(&c, last, listed) {
		s.account.Metrics.Suppressed.Inc()
		s.drop(&c)
		return
	}
	d := delivery.Delta{Change: c, Silent: s.spec.SkipSnapshot && s.novelty.begins(&c, exists)}
	if !listed && s.refusals.refused.Counted(key, c.ResourceVersion) {
		d.Counted = 1
	}
	s.enqueue(key, d)
}

// known is the newest that was handed over of an object, published or not.
func (s *stream) known(key string) (checkpoint.Row, bool) {
	if o := s.pending[key]; o != nil {
		return o.Known, true
	}
	return s.ledger.Get(key)
}

// end is the end of an object that no watch has shown, with the numbers of an event that the rules have given.
func (s *stream) end(
	key string, row *checkpoint.Row, e sequence.Event, reason source.Reason, seen time.Time,
) delivery.Delta {
	s.account.Metrics.Synthesized.Inc()
	at := ledger.Ident(key, row)
	return delivery.Delta{Concluded: true, Change: source.Change{
		Op: source.Deleted, Ident: at, Reason: reason, Seen: seen, Listed: true, Epoch: e.Epoch, Version: e.Version,
	}}
}

// enqueue puts a change in its object's queue; the caller holds mu.
func (s *stream) enqueue(key string, d delivery.Delta) {
	o := s.pending[key]
	if o == nil {
		if d.Silent && s.spec.Filter == nil {
			row, _ := s.ledger.Get(key)
			d.Date()
			s.remember(key, &d, row)
			s.drop(&d.Change)
			return
		}
		o = s.env.Delivery.Object(&s.publication, key)
		s.pending[key] = o
	}
	known, exists := o.Known, o.Known != (checkpoint.Row{})
	if !exists {
		known, exists = s.ledger.Get(key)
	}
	o.Known = ledger.Apply(known, exists, ledger.RowOfChange(&d.Change))
	if folded := o.Push(d, s.spec.Latest); folded != nil {
		// It waits already. If it were added once more, while a worker is about to take what waits, the queue would
		// have it when nothing does.
		s.drop(&folded.Change)
		return
	}
	s.env.Delivery.Add(o)
}

// remember moves the ledger to what was just published, or passed over; place says where the object's last event is.
func (s *stream) remember(key string, d *delivery.Delta, place checkpoint.Row) {
	next := ledger.RowOfChange(&d.Change)
	next.Rejected, next.Digest, next.Form = d.Rejected, d.Digest, d.Form
	next.Sequence, next.Partition, next.Fresh = place.Sequence, place.Partition, place.Fresh
	known, exists := s.ledger.Get(key)
	s.ledger.Put(key, ledger.Apply(known, exists, next))
}

// drop ends a change's life: its ticket, its bytes and its body.
func (s *stream) drop(c *source.Change) {
	c.Body.Release()
	c.Body = nil
	s.env.Budget.Release(c.Size, c.Listed)
	if c.Reason == source.ReasonResync && c.Listed {
		s.resyncer.resync.room.Release(1)
	}
	if c.Ticket != 0 {
		s.tracker.Settle(uint64(c.Ticket))
	}
}

// safe returns a position that the log is complete up to, also in what it has been told about the stream; empty if
// there is none.
func (s *stream) safe() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.saved.Unannounced != (checkpoint.Snapshot{}) || s.epochs.distrusted || s.saved.Owes.List >= sequence.Reselect {
		return "" // of a position from before another selection the log need not have everything
	}
	return s.position()
}

// position is the one from which a watch loses nothing; the caller holds mu.
func (s *stream) position() string {
	return cmp.Or(s.epochs.held, s.tracker.Position())
}

// resumable returns the position that a commit saves: none where everything is listed again. The caller holds mu.
func (s *stream) resumable() string {
	if s.saved.Owes.List >= sequence.Republish {
		return ""
	}
	return s.position()
}

// Resume implements source.History.
func (s *stream) Resume() (string, iter.Seq2[source.Ident, bool], bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	position := s.position()
	if position == "" || s.saved.Owes.List >= sequence.Reselect {
		return s.reached(position), nil, false
	}
	return position, s.lists.knownIdents, true
}

// knownIdents yields what the log has, or is about to get, and whether it is what the object is, each as it is when its
// turn comes. Changes go on meanwhile.
func (s *listProgress) knownIdents(yield func(id source.Ident, current bool) bool) {
	tell := func(key string) bool {
		s.mu.Lock()
		row, exists := s.known(key)
		lacks := s.refusals.refused.Has(key)
		s.mu.Unlock()
		return !exists || row.Deleted || yield(ledger.Ident(key, &row), !lacks)
	}
	for key := range s.ledger.All() {
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
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.pending {
		if row, exists := s.ledger.Get(key); !exists || row.Deleted {
			keys = append(keys, key)
		}
	}
	return keys
}

// reached is the newest version that compares: of the position, or of what the log has; empty where there is none. A
// server that is older does not compare. The caller holds mu.
func (s *stream) reached(position string) string {
	newest := s.ledger.Newest(s.since.Load())
	for _, f := range s.saved.Floors {
		newest = max(newest, f.Position)
	}
	switch {
	case s.saved.Owes.List < sequence.Republish && ledger.Numeric(position) >= newest:
		return position
	case newest == 0 || s.saved.Counter > 0:
		return ""
	}
	return strconv.FormatUint(newest, 10)
}

// newest is [stream.reached] of what was published by now.
func (s *stream) newest() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reached(s.position())
}
