// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/delivery"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// novelty decides what of a stream's changes is to be published.
type novelty struct{ *Stream }

// taken reports whether a watch shows what the stream has published from which the object was taken over. The caller
// holds mu.
func (s *novelty) taken(c *source.Change) bool {
	if len(s.Saved.Floors) == 0 {
		return false
	}
	order := s.order()
	return order.Below(c.Namespace, c.Version)
}

// compare finds out whether a change cannot be of the time that the log has the object's last event of. The caller
// holds mu.
func (s *novelty) compare(c *source.Change, last *sequence.Row, listed bool) {
	if s.revived(c, last) {
		s.Epochs.Revoke(c, strconv.FormatUint(last.Version, 10))
		return
	}
	// A list behind a gap may be older than what was published.
	if !listed || last != nil && last.Version > s.Lists.listingAt {
		return
	}
	object := ledger.ObjectOf(c.UID, c.Version, c.Body.Bytes(), last)
	object.Pending = s.Refusals.refused.Has(c.Key())
	if order := s.order(); order.Listed(object, last) == "" {
		return
	}
	logged := s.position()
	if last != nil {
		logged = strconv.FormatUint(last.Version, 10)
	}
	s.Epochs.Revoke(c, logged)
}

// leaves reports whether a change that does not compare is left to the list of the next epoch, which shows what came of
// it. The caller holds mu.
func (s *novelty) leaves(c *source.Change, last *sequence.Row) bool {
	return s.Epochs.Mismatch != nil && c.Epoch == s.Epoch && (c.Listed || s.revived(c, last))
}

// revived reports whether an object is there again, and newer, that was deleted: a uid has one life. Into a selection
// it can come back: an end of an epoch before may be of an object that was not selected any more.
func (s *novelty) revived(c *source.Change, last *sequence.Row) bool {
	if last == nil || c.Op == source.Deleted || !last.Ended() || last.UID != c.UID || s.Selective() {
		return false
	}
	order := s.order()
	return last.Epoch >= order.Epoch && c.Version > max(last.Version, order.Rewound)
}

// next decides by the rules of package sequence whether a change is to be published, and completes it.
func (s *novelty) next(c *source.Change, last *sequence.Row, listed bool) bool {
	order := s.order()
	var events []sequence.Event
	if listed {
		events = order.List(sequence.Object{UID: c.UID, Version: c.Version}, last)
	} else {
		events = order.Watch(sequence.Seen{UID: c.UID, Version: c.Version, Deleted: c.Op == source.Deleted}, last)
	}
	if len(events) == 0 {
		return false
	}
	e := events[len(events)-1]
	if c.Op != source.Deleted || e.Again { // else classify finds whose end it is
		c.UID = e.UID
	}
	c.Epoch, c.Version = e.Epoch, e.Version
	if listed && s.Saved.Owes.List == sequence.Repair {
		c.Reason = source.ReasonRepair
	}
	if !e.Again {
		return true
	}
	c.Again = s.repetition()
	if c.Reason == source.ReasonWatch {
		c.Reason = source.ReasonResync
	}
	return true
}

// repetition returns the number of an event that is published again, of a repair or a rewind. The caller holds mu.
func (s *novelty) repetition() int64 {
	return cmp.Or(s.Saved.Owes.Number, s.Saved.Replay.Number, delivery.Unnumbered)
}

// end is the end of an object that no watch has shown, with the numbers of an event that the rules have given. The
// caller holds mu.
func (s *novelty) end(
	key string, row *checkpoint.Row, e sequence.Event, reason source.Reason, seen time.Time,
) delivery.Delta {
	s.Figures.Metrics.Synthesized.Inc()
	d := delivery.Delta{Concluded: true, Change: source.Change{
		Op: source.Deleted, Ident: ledger.Ident(key, row), Reason: reason, Seen: seen, Listed: true, Epoch: e.Epoch,
		Version: e.Version,
	}}
	if e.Again {
		d.Again = s.repetition()
	}
	return d
}

// begins reports whether a change only shows what there was when the stream began. Where the checkpoint was lost it
// begins again, but for what the log has.
func (s *novelty) begins(c *source.Change, known bool) bool {
	return c.Reason == source.ReasonSnapshot ||
		c.Reason == source.ReasonRelist && !known && s.Saved.Owes.Cause == string(source.CauseCheckpointLost)
}

// classify makes the attempt what the log has to be told next of the object, as far as the log is known: an addition or
// an update, or before it the deletion of an object that had its name. row is what the ledger has of it, if it exists
// there. It reports false where the log has it already. The caller holds mu.
func (s *novelty) classify(o *delivery.Object, row checkpoint.Row, exists bool) (fresh bool) {
	d := &o.Attempt.Delta
	last := ledger.LastOf(&row, exists)
	if endsAnother(d, last) {
		d.Concluded, d.Reason = true, source.ReasonRelist
		d.Body.Release()
		d.Body = nil
	}
	if d.Concluded && last != nil && !last.Ended() {
		d.UID, d.ResourceVersion = row.UID, row.ResourceVersion
	}
	switch {
	case d.Silent:
		return true
	case d.Op == source.Deleted && d.Again == 0 && last != nil && last.Ended() && last.UID == d.UID:
		return false // it has ended already
	case d.Repeated: // only as long as it is the last state
		return exists && s.is(&row, d.Ident, d.Written)
	}
	order := s.order()
	events := order.Publish(ledger.EventOf(&d.Change), last)
	switch {
	case len(events) == 0:
		return false
	case len(events) == 2 && !lostFromLog(&row): // else the log has nothing that could end
		first := s.end(o.Key, &row, events[0], d.Reason, d.Seen)
		first.Listed, first.Precedes = d.Listed, true
		o.Pending = slices.Insert(o.Pending, 0, *d)
		o.Attempt.Delta, o.Attempt.Rejected = first, nil
		return true
	}
	switch {
	case d.Op == source.Deleted:
	case d.Again != 0 && !d.Listed: // the row is of a later state: it is what the watch says
	case last != nil && !last.Ended() && !lostFromLog(&row):
		d.Op = source.Updated
	default:
		d.Op = source.Added
	}
	return true
}

// endsAnother reports whether a watch has shown the end of an object, and the log has another one alive under its name.
// The broker has refused the end of that, and everything since.
func endsAnother(d *delivery.Delta, last *sequence.Row) bool {
	return d.Op == source.Deleted && d.Again == 0 && !d.Concluded && last != nil && !last.Ended() && last.UID != d.UID
}

// lostFromLog reports whether the log had an event of a row's object, and has lost all of them.
func lostFromLog(row *checkpoint.Row) bool { return row.Behind && row.Sequence == 0 }
