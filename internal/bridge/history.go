// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// Note implements source.History.
func (s *stream) Note(ctx context.Context, p source.Progress) error {
	switch p.Kind {
	case source.Bookmark:
		s.tracker.Bookmark(p.Version)
	case source.Recovering:
		s.owe(p)
		return s.session.save(ctx)
	case source.SnapshotStarted, source.Gap:
		return s.listStarted(ctx, p)
	case source.Listed:
		return s.listCompleted(ctx, p)
	}
	return nil
}

// listStarted announces a list, after everything before it and before everything of it. When it returns nothing of the stream
// is pending: the ledger is what the log has.
func (s *stream) listStarted(ctx context.Context, p source.Progress) error {
	if err := s.tracker.Await(ctx); err != nil {
		return err
	}
	if err := s.doubted(); err != nil {
		return err
	}
	// What is published of a list is looked for after a crash only in streams that the store knows, and no watch goes on behind a part of it.
	if p.Kind == source.Gap {
		s.owe(p)
	}
	if err := s.session.save(ctx); err != nil {
		return err
	}
	m, suffix := s.opening(p)
	if suffix != "" {
		s.session.forgetTrail(s.name) // older positions are those of other selectors
	}
	if err := s.announceList(ctx, m); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listing, s.listingAt, s.suffix = source.ReasonSnapshot, p.Version, suffix
	if m.Kind == source.MarkerGap {
		s.listing = source.ReasonRelist
	}
	if p.Kind == source.SnapshotStarted {
		// Until the list is in the log the position is not one that any selectors could be resumed from.
		s.saved.Fingerprint = ""
	}
	s.ledger.StartList()
	return nil
}

// owe takes note that what is published from now on is not in the order of versions, until a list is complete.
func (s *stream) owe(p source.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved.Owed = checkpoint.Owed{Version: p.Version, Cause: p.Cause}
}

// owed returns the list that a dead process has not come to the end of.
func (s *stream) owed() source.Owed {
	s.mu.Lock()
	defer s.mu.Unlock()
	owed := source.Owed{Version: s.saved.Owed.Version, Cause: s.saved.Owed.Cause}
	if owed != (source.Owed{}) {
		gap := source.Marker{Kind: source.MarkerGap, From: s.position(), To: owed.Version}
		owed.Announced = s.saved.Announced == markerID(s.encoder, gap)
	}
	return owed
}

// opening returns what is to be said of a list that begins, and what the ids of its events end in.
func (s *stream) opening(p source.Progress) (m source.Marker, suffix string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m = source.Marker{Kind: source.MarkerGap, From: s.tracker.Position(), To: p.Version, Cause: p.Cause, Seen: p.Seen}
	switch {
	case m.From == "" && s.saved.Gap.From == "":
		m.Kind = source.MarkerSnapshotStarted
		if s.saved.Entered != "" {
			suffix = ".s" + s.saved.Entered
		}
	case m.From == "":
		m.From, m.Cause = s.saved.Gap.From, s.saved.Gap.Cause
	case p.Kind == source.SnapshotStarted:
		m.Cause, suffix = "the stream's selectors changed", ".s"+s.fingerprint
	}
	return m, suffix
}

// announceList publishes the marker of a list that begins, and waits for its acknowledgement.
func (s *stream) announceList(ctx context.Context, m source.Marker) error {
	gap := m.Kind == source.MarkerGap
	if s.spec.SkipSnapshot && !gap {
		return nil
	}
	if gap {
		s.metrics.relists.Inc()
	}
	id := markerID(s.encoder, m)
	if s.announced() != id { // else by a process that did not get to the end of the list, and perhaps not to know that the broker has it
		// Whoever waits may be gone when the broker has it, and the last commit says all the same that the log was read up to there.
		noted := func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.saved.Announced = id
		}
		if err := s.queueMarker(&marker{Marker: m, settled: noted}).wait(ctx); err != nil {
			return err
		}
	}
	if gap {
		s.metrics.gaps.Inc()
		s.past.gap(m.From, m.To, m.Cause)
		s.session.log.Warn("gap: changes in between are not known", "stream", s.name, "from", m.From, "to", m.To, "cause", m.Cause)
	}
	return nil
}

func markerID(e *encode.Encoder, m source.Marker) string {
	var message sink.Message
	e.Marker(&message, m)
	return message.ID
}

func (s *stream) announced() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saved.Announced
}

// queueMarker queues a marker. What has to stand before it in the log is settled already; the position does not pass it.
func (s *stream) queueMarker(mk *marker) *marker {
	mk.ticket, mk.acked = source.Ticket(s.tracker.Open("", time.Now())), make(chan struct{})
	o := newObject()
	o.stream = s
	o.attempt = attempt{active: true, marker: mk}
	s.session.busy.enter()
	s.session.queue.Add(o)
	return mk
}

// listCompleted finds what vanished, and makes the list's version the position once all of the list is in the log. Only then is a
// snapshot called complete: what follows it can be read again after a crash.
func (s *stream) listCompleted(ctx context.Context, p source.Progress) error {
	snapshot := s.endList(p)
	if err := s.tracker.Await(ctx); err != nil {
		return err
	}
	if err := s.doubted(); err != nil {
		return err
	}
	s.mu.Lock()
	s.saved.Fingerprint, s.saved.Gap, s.saved.Announced, s.distrusted = s.fingerprint, checkpoint.Gap{}, "", false
	s.saved.Owed = checkpoint.Owed{}
	if snapshot && !s.spec.SkipSnapshot {
		s.saved.Unannounced = checkpoint.Snapshot{ResourceVersion: p.Version, Objects: p.Objects}
	}
	s.tracker.Bookmark(p.Version)
	s.mu.Unlock()
	if err := s.session.save(ctx); err != nil {
		return err
	}
	return s.announceSnapshot(false).wait(ctx)
}

// endList queues the deletion of everything known that the list did not have, and reports whether the list was a snapshot.
func (s *stream) endList(p source.Progress) (snapshot bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, row := range s.ledger.Unseen() {
		if s.revoked != nil {
			break
		}
		at := ident(key, row)
		d := s.vanished(at.Namespace, at.Name, row, s.listing, p.Seen)
		d.IDSuffix = s.suffix
		s.repair(&d.Change)
		s.replayed(&d.Change)
		d.Ticket = source.Ticket(s.tracker.Open("", p.Seen))
		s.enqueue(key, d)
	}
	s.suffix = ""
	return s.listing == source.ReasonSnapshot
}

// announceSnapshot queues the word that the snapshot is complete, if that is due. Again says that a dead process may have
// published it.
func (s *stream) announceSnapshot(again bool) *marker {
	s.mu.Lock()
	due := s.saved.Unannounced
	s.mu.Unlock()
	if due == (checkpoint.Snapshot{}) {
		return nil
	}
	return s.queueMarker(&marker{
		Marker: source.Marker{Kind: source.MarkerSnapshotCompleted, To: due.ResourceVersion, Objects: due.Objects, Seen: time.Now()},
		again:  again,
		settled: func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.saved.Unannounced = checkpoint.Snapshot{}
		},
	})
}

// checkpoint returns what a commit must hold. A row moves and its ticket is settled under mu, so that the rows are never behind the
// position.
func (s *stream) checkpoint() (checkpoint.Stream, map[string]checkpoint.Row, []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	position := s.position()
	if position != "" && !after(s.saved.Repair, position) {
		s.saved.Repair = ""
	}
	if position != "" && !after(s.saved.Replay.To, position) {
		s.saved.Replay = checkpoint.Replay{}
	}
	saved := s.saved
	saved.Position = position
	if s.revoked == nil { // else a tombstone may be what tells which changes are left to the next history
		s.ledger.Prune(position)
	}
	put, drop := s.ledger.Take()
	return saved, put, drop
}
