// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"context"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/delivery"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// opening returns what is to be said of a list that begins.
func (s *listProgress) opening(p source.Progress) source.Marker {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	m := source.Marker{
		Kind: source.MarkerGap, Epoch: s.Epoch, From: s.Tracker.Position(), To: p.Version, Why: p.Why, Seen: p.Seen,
	}
	owes := s.Saved.Owes
	switch {
	case owes.List < sequence.Reselect:
	case owes.From == "":
		m.Kind, m.From = source.MarkerSnapshotStarted, ""
	default:
		m.From, m.Why = owes.From, source.Why{Cause: source.Cause(owes.Cause), Message: owes.Message}
	}
	return m
}

// numberRepair makes what the list owes durable, and of a repair the number of its markers too: each has markers of its
// own, also where it begins again. The error is ctx's, or permanent.
func (s *listProgress) numberRepair(ctx context.Context) error {
	s.Env.Exclusive(func() {
		s.Mu.Lock()
		defer s.Mu.Unlock()
		if s.Saved.Owes.List == sequence.Repair {
			s.Saved.Owes.Number = s.Env.NextResync(0)
		}
	})
	return s.Env.Save(ctx)
}

// announceRepair publishes a marker of the resync that repairs a log, and waits for its acknowledgement.
func (s *listProgress) announceRepair(ctx context.Context, kind source.MarkerKind, m source.Marker) error {
	s.Mu.Lock()
	owes, epoch := s.Saved.Owes, s.Epoch
	s.Mu.Unlock()
	if owes.List != sequence.Repair {
		return nil
	}
	m.Kind, m.Epoch, m.Number = kind, epoch, owes.Number
	mk := s.QueueMarker(&delivery.Marker{Marker: m})
	if err := mk.Wait(ctx); err != nil {
		return err
	}
	s.Resyncer.open(mk)
	return nil
}

// AnnounceList publishes the marker of a list that begins, and waits for its acknowledgement.
func (s *listProgress) AnnounceList(ctx context.Context, m source.Marker) error {
	gap := m.Kind == source.MarkerGap
	if s.Spec.SkipSnapshot && !gap {
		return nil
	}
	if gap {
		s.Figures.Metrics.Relists.Inc()
	}
	if err := s.announce(m).Wait(ctx); err != nil {
		return err
	}
	if gap {
		s.Figures.Metrics.Gaps.Inc()
		s.Figures.Incidents.Announced(health.Gap{
			At: time.Now(), From: m.From, To: m.To, Cause: string(m.Why.Cause), Message: m.Why.Message,
		})
		s.Env.Log.Warn("gap: changes may be missing from the log",
			"stream", s.Name, "from", m.From, "to", m.To, "cause", string(m.Cause), "message", m.Message)
	}
	return nil
}

// announce returns the marker of a list that begins; nil if the log has it, from a process that did not get to the end
// of the list. If the list was cut short while the broker had not acknowledged its marker, the same list waits for that
// one.
func (s *listProgress) announce(m source.Marker) *delivery.Marker {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	id := s.Encoder.MarkerID(m)
	switch {
	case s.Saved.Announced == id:
		return nil
	case s.announcing != nil && s.Encoder.MarkerID(s.announcing.Marker) == id:
		return s.announcing
	}
	mk := &delivery.Marker{Marker: m}
	// Whoever waits may be gone when the broker has it, and the last commit says all the same that the log was read up
	// to there.
	mk.Settled = func() {
		s.Mu.Lock()
		defer s.Mu.Unlock()
		s.Saved.Announced = id
		if s.announcing == mk {
			s.announcing = nil
		}
	}
	s.announcing = s.QueueMarker(mk)
	return mk
}

// QueueMarker queues a marker. What has to stand before it in the log is settled already; the position does not pass
// it.
func (s *listProgress) QueueMarker(mk *delivery.Marker) *delivery.Marker {
	mk.Ticket = source.Ticket(s.Tracker.Open("", time.Now()))
	s.Env.Delivery.Announce(&s.Publication, mk)
	return mk
}

// announceSnapshot queues the word that the snapshot is complete, if that is due. Again says that a dead process may
// have published it.
func (s *listProgress) announceSnapshot(again bool) *delivery.Marker {
	s.Mu.Lock()
	due, epoch := s.Saved.Unannounced, s.Saved.Epoch
	s.Mu.Unlock()
	if due == (checkpoint.Snapshot{}) {
		return nil
	}
	return s.QueueMarker(&delivery.Marker{
		Marker: source.Marker{
			Kind: source.MarkerSnapshotCompleted, Epoch: epoch, To: due.ResourceVersion,
			Objects: due.Objects, Seen: time.Now(),
		},
		Again: again,
		Settled: func() {
			s.Mu.Lock()
			defer s.Mu.Unlock()
			s.Saved.Unannounced = checkpoint.Snapshot{}
		},
	})
}
