// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"slices"

	"golang.org/x/time/rate"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/delivery"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// publication makes the messages of a stream's changes, and takes note of what the log has.
type publication struct {
	*stream
	// undecidedly is for saying what may be true of every event.
	undecidedly rate.Sometimes
}

// Account implements delivery.Stream.
func (s *publication) Account() *delivery.Account { return &s.account }

// Take implements delivery.Stream.
func (s *publication) Take(o *delivery.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.Take() {
		s.refusals.carry(o.Key, &o.Attempt.Delta)
	}
}

// Due implements delivery.Stream.
func (s *publication) Due(o *delivery.Object) (row checkpoint.Row, fate delivery.Fate) {
	a := &o.Attempt
	s.mu.Lock()
	row, exists := s.ledger.Get(o.Key)
	left := s.novelty.leaves(&a.Delta.Change, ledger.LastOf(&row, exists))
	fresh := left || s.novelty.classify(o, row, exists)
	s.mu.Unlock()
	switch {
	case left:
		return row, delivery.Leave
	case !fresh:
		// The log turned out to have more of the object than was known when the change was queued.
		s.resyncer.passOver(row.Sequence)
		if s.before.cache != nil && row.Deleted {
			s.before.cache.Drop(o.Key)
		}
		if a.Delta.Repeated {
			s.resyncer.resync.leave()
		} else {
			s.account.Metrics.Suppressed.Inc()
		}
		return row, delivery.Leave
	case s.filtered(a, row):
		a.Delta.Date()
		return row, delivery.Remember
	default:
		return row, delivery.Publish
	}
}

// Data implements delivery.Stream.
func (s *publication) Data(c *source.Change) ([]byte, error) { return s.encoder.Data(c) }

// PassOver implements delivery.Stream.
func (s *publication) PassOver(place uint64) { s.resyncer.passOver(place) }

// Separable implements delivery.Stream.
func (s *publication) Separable(a *delivery.Attempt, err error) bool {
	return s.before.separable(a, err)
}

// Settle implements delivery.Stream.
func (s *publication) Settle(ticket source.Ticket) { s.tracker.Settle(uint64(ticket)) }

// SetAside implements delivery.Stream. What the log has already need not be recorded.
func (s *publication) SetAside(o *delivery.Object, err error) bool {
	d := &o.Attempt.Delta
	s.mu.Lock()
	if d.Precedes { // what it precedes cannot be told either
		d = &o.Pending[0]
	}
	ok := d.Repeated || s.refusals.refuse(o.Key, d, err)
	o.Attempt.Delta.Counted = 0
	if ok && o.Attempt.Delta.Precedes {
		s.drop(&d.Change)
		o.Pending = slices.Delete(o.Pending, 0, 1)
	}
	s.mu.Unlock()
	if ok && o.Attempt.Delta.Repeated {
		s.resyncer.resync.leave()
	}
	return ok
}

// Finish implements delivery.Stream.
func (s *publication) Finish(o *delivery.Object, place checkpoint.Row, moves bool, r sink.Receipt) (more bool) {
	a := &o.Attempt
	if moves {
		s.before.keep(o.Key, a, &place)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if moves {
		a.Delta.Rejected = a.Rejected != nil
		s.remember(o.Key, &a.Delta, place)
	}
	switch {
	case a.Delta.Precedes: // the log lacks what follows
	case a.Delta.Counted > 0:
		s.refusals.refused.Uncount(o.Key, a.Delta.Counted)
	case moves:
		s.refusals.refused.Remove(o.Key)
	}
	s.env.Delivery.Landed(a, r) // after the ledger, before the position
	s.drop(&a.Delta.Change)
	if more = len(o.Pending) > 0; more {
		s.env.Delivery.Add(o)
	} else {
		delete(s.pending, o.Key)
	}
	return more
}

// filtered reports whether an attempt's change is to be remembered and not published; row is what is known of the
// object.
func (s *publication) filtered(a *delivery.Attempt, row checkpoint.Row) bool {
	d := &a.Delta
	s.before.see(a)
	switch {
	case s.spec.Filter == nil:
		return d.Silent
	case a.Rejected != nil:
		d.Digest = [16]byte{} // of the state itself the log has nothing
		return false
	case d.Passed:
		// What the log turned out to have may make it another operation. In doubt it is published.
		return false
	}
	before := row.Digest
	if !s.compares(&row) || d.Again != 0 {
		before = [16]byte{} // what is published again is published whatever the state
	}
	find, done := s.before.stateBefore(d.Key(), a, row)
	reason, now, err := s.spec.Filter.Filter(&d.Change, before, find)
	done()
	d.Digest = now
	if d.Silent {
		return true
	}
	if err != nil && !a.Unknown {
		s.undecided(d.Key(), reason != "", err)
	}
	if reason == "" {
		d.Passed = true
		return false
	}
	if s.refusals.lacksEvent(d.Key()) {
		a.Rejected, d.Digest = errRefusedBefore, [16]byte{}
		return false
	}
	s.account.Metrics.Filtered(reason)
	return true
}

// errRefusedBefore is why a rejection stands for a change that the filter leaves out.
var errRefusedBefore = errors.New("the broker has refused an event of the object that the filter had let through, " +
	"and the filter leaves this one out")

// undecided reports that the filter could not decide on a change.
func (s *publication) undecided(key string, dropped bool, err error) {
	s.account.Metrics.FilterErrors.Inc()
	becomes := "published"
	if dropped {
		becomes = "dropped"
	}
	s.undecidedly.Do(func() {
		s.env.Log.Warn("filter fails", "stream", s.name, "object", key, "err", err, "changeIs", becomes,
			"advice", "ask for what may be missing with has(…) first, as in has(object.data.colour) && …")
	})
}

// Encode implements delivery.Stream. It fills the attempt's message, and says what the sink has to check. Where the
// change cannot be encoded it returns why, and the message is a rejection.
func (s *publication) Encode(o *delivery.Object, row checkpoint.Row) (err error) {
	a, m := &o.Attempt, o.Attempt.Message
	m.Verify, m.Previous = false, 0
	if a.Marker != nil {
		s.encoder.Marker(m, a.Marker.Marker)
		// The id tells a repetition, unless the process is another one.
		m.Verify = a.Marker.Again || s.env.Delivery.Leased
		if a.Conflicts > 0 {
			m.Previous = a.Previous
		}
		return nil
	}
	a.Delta.Follow(row)
	if a.Rejected == nil {
		switch {
		case a.Whole != nil:
			err = s.encoder.Reduced(m, &a.Delta.Change, a.Whole.Size, a.Whole.Ref)
		case s.before.cache != nil && s.before.cache.KeepsData:
			err = s.before.encodeFrom(o, row)
		default:
			err = s.encoder.Change(m, &a.Delta.Change)
		}
		a.Rejected = err
	}
	if a.Rejected != nil {
		s.encoder.Rejected(m, &a.Delta.Change, a.Rejected, len(a.Delta.Body.Bytes()))
	}
	// The broker refuses a message that does not know the last one of the object: a late one, or one of another
	// process. Unfenced, three messages are checked. The first one of a key may meet a message of a dead process. In
	// latest mode a late message has an id that no other message has. A patch has to follow the event that it was made
	// from.
	m.Verify, m.Previous = s.env.Checks || s.spec.Latest || !row.Fresh || a.Based, row.Sequence
	if a.Conflicts > 0 {
		m.Verify, m.Previous = true, a.Previous
	}
	return err
}

// Found implements delivery.Stream. It takes note of what the log was seen to have last of an object. An epoch that the
// checkpoint has not given is another process's: then the pipeline starts from the log again.
func (s *publication) Found(o *delivery.Object, has *encode.State, at uint64) {
	if has.Sequence.Epoch > s.env.Epochs.Last() {
		s.env.Interrupt()
	}
	next := ledger.RowOfState(has)
	next.Sequence = at
	last, c, key := next.Last(), &o.Attempt.Delta.Change, o.Key
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.novelty.revived(c, &last) {
		s.epochs.revoke(c, has.ResourceVersion)
	}
	known, exists := s.ledger.Get(key)
	s.ledger.Put(key, ledger.Apply(known, exists, next))
}
