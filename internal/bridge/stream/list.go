// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"context"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/delivery"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
	"github.com/kube-eventbridge/kube-eventbridge/source/reader"
)

// listProgress is how a stream tells its consumers of lists: markers, what they owe, and what vanished.
type listProgress struct {
	*Stream
	// completing is the marker that a dead process owed; nil if it owed none. Nothing that is read may precede it.
	completing *delivery.Marker
	// announcing is the marker of a list that began, until the broker has it.
	announcing *delivery.Marker
	// listing is the reason of the changes that the running list brings, at its version.
	listing   source.Reason
	listingAt uint64
	// Complete is a list that is complete, until its version is the position.
	Complete *source.Progress
}

// Note implements source.History.
func (s *Stream) Note(ctx context.Context, p source.Progress) error {
	switch p.Kind {
	case source.Bookmark:
		s.Tracker.Bookmark(p.Version)
	case source.Recovering:
		s.Lists.owe(p)
		return s.Env.Save(ctx)
	case source.SnapshotStarted, source.Gap:
		return s.Lists.listStarted(ctx, p)
	case source.Listed:
		return s.Lists.listCompleted(ctx, p)
	}
	return nil
}

// listStarted announces a list, after everything before it and before everything of it. When it returns nothing of the
// stream is pending: the ledger is what the log has.
func (s *listProgress) listStarted(ctx context.Context, p source.Progress) error {
	if err := s.Tracker.Await(ctx); err != nil {
		return err
	}
	if err := s.Epochs.Mismatched(); err != nil {
		return err
	}
	// What is published of a list is looked for after a crash only in streams that the store knows, and no watch goes
	// on behind a part of it.
	if p.Kind == source.Gap {
		s.owe(p)
		if err := s.Tracker.Await(ctx); err != nil { // a refused object may have been tried again meanwhile
			return err
		}
	}
	if err := s.numberRepair(ctx); err != nil {
		return err
	}
	m := s.opening(p)
	if err := s.AnnounceList(ctx, m); err != nil {
		return err
	}
	if err := s.announceRepair(ctx, source.MarkerResyncStarted, source.Marker{To: p.Version, Seen: p.Seen}); err != nil {
		return err
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.listing, s.listingAt = source.ReasonSnapshot, s.Number(p.Version, nil)
	if m.Kind == source.MarkerGap {
		s.listing = source.ReasonRelist
	}
	if s.Epochs.Mismatch == nil {
		s.Epochs.listsNow()
	}
	s.Ledger.StartList()
	return nil
}

// owe takes note that what is published from now on is not in the order of versions, until a list is complete.
func (s *listProgress) owe(p source.Progress) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Saved.Owes.List > sequence.Relist {
		return
	}
	s.Saved.Owes = checkpoint.Owes{
		List: sequence.Relist, From: s.position(), Version: p.Version, Cause: string(p.Cause), Message: p.Message,
	}
}

// Owed returns the list that a dead process has not come to the end of.
func (s *listProgress) Owed() reader.Owed {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	o := s.Saved.Owes
	if o.List != sequence.Relist {
		return reader.Owed{}
	}
	owed := reader.Owed{Version: o.Version, Why: source.Why{Cause: source.Cause(o.Cause), Message: o.Message}}
	gap := source.Marker{Kind: source.MarkerGap, Epoch: s.Epoch, From: s.position(), To: o.Version}
	owed.Announced = s.Saved.Announced == s.Encoder.MarkerID(gap)
	return owed
}

// open takes note that a repair or a resync has begun with a marker, or has ended with one.
func (s *resyncer) open(mk *delivery.Marker) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.opened, s.untold = 0, false
	if mk.Kind == source.MarkerResyncStarted {
		s.opened = mk.Place
	}
}

// passOver takes note that a state is not published, because the log has it at a place. Before the marker of a repair
// or resync it tells nothing to who goes by that. A broker that refuses what a replaced process publishes has none
// there.
func (s *resyncer) passOver(place uint64) {
	if s.Env.Fenced() {
		return
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if place > 0 && place < s.opened {
		s.untold = true
		s.Resync.Leave()
	}
}

// listCompleted finds what vanished, and makes the list's version the position once all of the list is in the log. Only
// then is a snapshot called complete: what follows it can be read again after a crash.
func (s *listProgress) listCompleted(ctx context.Context, p source.Progress) error {
	exists, err := s.deselected(ctx, p)
	if err != nil {
		return err
	}
	s.endList(p, exists)
	if err := s.Tracker.Await(ctx); err != nil {
		return err
	}
	if err := s.Epochs.Mismatched(); err != nil {
		return err
	}
	complete := s.Spec.Filter == nil && !s.unrepaired()
	told := source.Marker{To: p.Version, Objects: p.Objects, Complete: complete, Seen: p.Seen}
	if err := s.announceRepair(ctx, source.MarkerResyncCompleted, told); err != nil {
		return err
	}
	// Until the version is the position the list is owed: a resync may look at objects, and hold the position
	// meanwhile.
	s.Mu.Lock()
	s.Complete = &p
	s.Mu.Unlock()
	s.Tracker.Bookmark(p.Version)
	if err := s.Tracker.Await(ctx); err != nil {
		return err
	}
	s.Mu.Lock()
	s.endOwed()
	s.Mu.Unlock()
	if err := s.Env.Save(ctx); err != nil {
		return err
	}
	return s.announceSnapshot(false).Wait(ctx)
}

// unrepaired reports whether the log lacks the state of an object, or has it before the markers only. Behind a repair a
// resync is due then.
func (s *listProgress) unrepaired() bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	lacks := s.Refusals.refused.Len() > 0 || s.Resyncer.untold
	if lacks && s.Saved.Owes.List == sequence.Repair {
		s.Saved.ResyncDue = true
	}
	return lacks
}

// endOwed takes note that a list that is complete is not owed any more: what does not compare is owed by itself. The
// caller holds mu.
func (s *listProgress) endOwed() {
	p := s.Complete
	if s.Complete = nil; p == nil || s.Epochs.Mismatch != nil {
		return
	}
	s.Saved.Owes, s.Saved.Reselected, s.Saved.Announced, s.Epochs.Distrusted = checkpoint.Owes{}, false, "", false
	if s.listing == source.ReasonSnapshot && !s.Spec.SkipSnapshot {
		s.Saved.Unannounced = checkpoint.Snapshot{ResourceVersion: p.Version, Objects: p.Objects}
	}
}

// deselected returns the objects by uid that exist, where the list is of another selection than the log has: those that
// the list did not have are not selected any more. The error is ctx's.
func (s *listProgress) deselected(ctx context.Context, p source.Progress) (exists map[string]struct{}, err error) {
	s.Mu.Lock()
	changed := s.Saved.Reselected
	s.Mu.Unlock()
	if !changed || !s.Ledger.Misses() {
		return nil, nil
	}
	all := s.At()
	all.LabelSelector, all.FieldSelector = "", ""
	exists = map[string]struct{}{}
	err = kube.Audit(ctx, s.Env.Client, all, p.Version, func(id source.Ident, _ []byte) error {
		exists[id.UID] = struct{}{}
		return nil
	})
	if err != nil && ctx.Err() == nil { // that version is gone, or cannot be read
		_, err = kube.Current(ctx, s.Env.Client, all, func(item *kube.Item) error {
			exists[item.UID] = struct{}{}
			return nil
		})
	}
	return exists, err
}

// endList queues the end of everything known that the list did not have. Exists are objects that are not selected any
// more.
func (s *listProgress) endList(p source.Progress, exists map[string]struct{}) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	reason := s.listing
	if s.Saved.Owes.List == sequence.Repair {
		reason = source.ReasonRepair
	}
	for key, row := range s.Ledger.Unseen() {
		if s.Epochs.Mismatch != nil {
			break
		}
		last, order := row.Last(), s.order()
		e, gone := order.Missing(&last, s.listingAt)
		if !gone {
			continue
		}
		d := s.novelty.end(key, &row, e, reason, p.Seen)
		if _, is := exists[row.UID]; is {
			d.Reason = source.ReasonDeselected
		}
		d.Ticket = source.Ticket(s.Tracker.Open("", p.Seen))
		s.enqueue(key, d)
	}
}

// DeleteAll queues the end of all that the log has as existing, and returns of how many objects.
func (s *listProgress) DeleteAll(reason func(uid string) source.Reason) (n int) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	now := time.Now()
	position := ledger.Numeric(s.position())
	for key, row := range s.Ledger.Rows() {
		last := row.Last()
		e, gone := sequence.Deselected(&last, s.Epoch, position)
		if !gone {
			continue
		}
		d := s.novelty.end(key, &row, e, reason(row.UID), now)
		d.Ticket = source.Ticket(s.Tracker.Open("", now))
		s.enqueue(key, d)
		n++
	}
	s.Refusals.refused.RemoveIf(func(key string) bool { return s.Pending[key] == nil }) // nothing of them is on its way
	return n
}
