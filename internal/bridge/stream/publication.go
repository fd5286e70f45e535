// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"errors"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/delivery"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// Publication makes the messages of a stream's changes, and takes note of what the log has.
type Publication struct {
	*Stream
	// undecidedly is for saying what may be true of every event.
	undecidedly rate.Sometimes
}

// Account implements delivery.Stream.
func (s *Publication) Account() *delivery.Account { return &s.Figures }

// Take implements delivery.Stream.
func (s *Publication) Take(o *delivery.Object) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if o.Take() {
		s.Refusals.carry(o.Key, &o.Attempt.Delta)
	}
}

// Due implements delivery.Stream.
func (s *Publication) Due(o *delivery.Object) (row checkpoint.Row, fate delivery.Fate) {
	a := &o.Attempt
	s.Mu.Lock()
	row, exists := s.Ledger.Get(o.Key)
	left := s.novelty.leaves(&a.Delta.Change, ledger.LastOf(&row, exists))
	fresh := left || s.novelty.classify(o, row, exists)
	s.Mu.Unlock()
	switch {
	case left:
		return row, delivery.Leave
	case !fresh:
		// The log turned out to have more of the object than was known when the change was queued.
		s.Resyncer.passOver(row.Sequence)
		if s.Before.Cache != nil && row.Deleted {
			s.Before.Cache.Drop(o.Key)
		}
		if a.Delta.Repeated {
			s.Resyncer.Resync.Leave()
		} else {
			s.Figures.Metrics.Suppressed.Inc()
		}
		return row, delivery.Leave
	case s.Filtered(a, row):
		a.Delta.Date()
		return row, delivery.Remember
	default:
		return row, delivery.Publish
	}
}

// Data implements delivery.Stream.
func (s *Publication) Data(c *source.Change) ([]byte, error) { return s.Encoder.Data(c) }

// PassOver implements delivery.Stream.
func (s *Publication) PassOver(place uint64) { s.Resyncer.passOver(place) }

// Separable implements delivery.Stream. An event that has the object twice may not be too large without what was
// before.
func (s *Publication) Separable(a *delivery.Attempt, err error) bool {
	return a.Based && !a.Alone && a.Rejected == nil && a.Whole == nil && s.Spec.Encoding.Payload == encode.Change &&
		sink.IsTooLarge(err)
}

// Settle implements delivery.Stream.
func (s *Publication) Settle(ticket source.Ticket) { s.Tracker.Settle(uint64(ticket)) }

// SetAside implements delivery.Stream. What the log has already need not be recorded.
func (s *Publication) SetAside(o *delivery.Object, err error) bool {
	d := &o.Attempt.Delta
	s.Mu.Lock()
	if d.Precedes { // what it precedes cannot be told either
		d = &o.Pending[0]
	}
	ok := d.Repeated || s.Refusals.refuse(o.Key, d, err)
	o.Attempt.Delta.Counted = 0
	if ok && o.Attempt.Delta.Precedes {
		s.drop(&d.Change)
		o.Pending = slices.Delete(o.Pending, 0, 1)
	}
	s.Mu.Unlock()
	if ok && o.Attempt.Delta.Repeated {
		s.Resyncer.Resync.Leave()
	}
	return ok
}

// Finish implements delivery.Stream.
func (s *Publication) Finish(o *delivery.Object, place checkpoint.Row, moves bool, r sink.Receipt) (more bool) {
	a := &o.Attempt
	if moves {
		s.Before.Keep(o.Key, a, &place)
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if moves {
		a.Delta.Rejected = a.Rejected != nil
		s.remember(o.Key, &a.Delta, place)
	}
	switch {
	case a.Delta.Precedes: // the log lacks what follows
	case a.Delta.Counted > 0:
		s.Refusals.refused.Uncount(o.Key, a.Delta.Counted)
	case moves:
		s.Refusals.refused.Remove(o.Key)
	}
	s.Env.Delivery.Landed(a, r) // after the ledger, before the position
	s.drop(&a.Delta.Change)
	if more = len(o.Pending) > 0; more {
		s.Env.Delivery.Add(o)
	} else {
		delete(s.Pending, o.Key)
	}
	return more
}

// Filtered reports whether an attempt's change is to be remembered and not published; row is what is known of the
// object.
func (s *Publication) Filtered(a *delivery.Attempt, row checkpoint.Row) bool {
	d := &a.Delta
	s.Before.See(a)
	switch {
	case s.Spec.Filter == nil:
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
	find, done := s.Before.Before(d.Key(), a, row)
	reason, now, err := s.Spec.Filter.Filter(&d.Change, before, find)
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
	if _, _, refused := s.Known(d.Key()); refused {
		a.Rejected, d.Digest = errRefusedBefore, [16]byte{}
		return false
	}
	s.Figures.Metrics.Filtered(reason)
	return true
}

// errRefusedBefore is why a rejection stands for a change that the filter leaves out.
var errRefusedBefore = errors.New("the broker has refused an event of the object that the filter had let through, " +
	"and the filter leaves this one out")

// undecided reports that the filter could not decide on a change.
func (s *Publication) undecided(key string, dropped bool, err error) {
	s.Figures.Metrics.FilterErrors.Inc()
	becomes := "published"
	if dropped {
		becomes = "dropped"
	}
	s.undecidedly.Do(func() {
		s.Env.Log.Warn("filter fails", "stream", s.Name, "object", key, "err", err, "changeIs", becomes,
			"advice", "ask for what may be missing with has(…) first, as in has(object.data.colour) && …")
	})
}

// Encode implements delivery.Stream. It fills the attempt's message, and says what the sink has to check. Where the
// change cannot be encoded it returns why, and the message is a rejection.
func (s *Publication) Encode(o *delivery.Object, row checkpoint.Row) (err error) {
	a, m := &o.Attempt, o.Attempt.Message
	m.Verify, m.Previous = false, 0
	if a.Marker != nil {
		s.Encoder.Marker(m, a.Marker.Marker)
		// The id tells a repetition, unless the process is another one.
		m.Verify = a.Marker.Again || s.Env.Delivery.Leased
		if a.Conflicts > 0 {
			m.Previous = a.Previous
		}
		return nil
	}
	a.Delta.Follow(row)
	if a.Rejected == nil {
		switch {
		case a.Whole != nil:
			err = s.Encoder.Reduced(m, &a.Delta.Change, a.Whole.Size, a.Whole.Ref)
		case s.Before.Cache != nil && s.Before.Cache.KeepsData:
			err = s.Before.EncodeFrom(o, row)
		default:
			err = s.Encoder.Change(m, &a.Delta.Change)
		}
		a.Rejected = err
	}
	if a.Rejected != nil {
		s.Encoder.Rejected(m, &a.Delta.Change, a.Rejected, len(a.Delta.Body.Bytes()))
	}
	// The broker refuses a message that does not know the last one of the object: a late one, or one of another
	// process. Unfenced, three messages are checked. The first one of a key may meet a message of a dead process. In
	// latest mode a late message has an id that no other message has. A patch has to follow the event that it was made
	// from.
	m.Verify, m.Previous = s.Env.Checks || s.Spec.Latest || !row.Fresh || a.Based, row.Sequence
	if a.Conflicts > 0 {
		m.Verify, m.Previous = true, a.Previous
	}
	return err
}

// Found implements delivery.Stream. It takes note of what the log was seen to have last of an object. An epoch that the
// checkpoint has not given is another process's: then the pipeline starts from the log again.
func (s *Publication) Found(o *delivery.Object, has *encode.State, at uint64) {
	if has.Sequence.Epoch > s.Env.Epochs.Last() {
		s.Env.Interrupt()
	}
	next := ledger.RowOfState(has)
	next.Sequence = at
	last, c, key := next.Last(), &o.Attempt.Delta.Change, o.Key
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.novelty.revived(c, &last) {
		s.Epochs.Revoke(c, has.ResourceVersion)
	}
	known, exists := s.Ledger.Get(key)
	s.Ledger.Put(key, ledger.Apply(known, exists, next))
}

// Published implements delivery.Stream. It counts an attempt that the broker has acknowledged.
func (s *Publication) Published(a *delivery.Attempt, now time.Time) {
	s.Figures.Metrics.Publish.Observe(now.Sub(a.Published).Seconds())
	if a.Marker != nil {
		return
	}
	s.Figures.Metrics.Published(a.Delta.Op.String(), string(a.Delta.Reason)).Inc()
	if !a.Written.IsZero() {
		s.Figures.Metrics.Delivery.Observe(max(0, now.Sub(a.Written).Seconds()))
	}
}
