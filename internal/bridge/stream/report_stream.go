// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/resyncs"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// Report is how a stream is doing.
type Report struct {
	Name                                    string
	Namespace, LabelSelector, FieldSelector string
	// Open: it is read. Else it is what the configuration asks for, and Err says why there is nothing to be read, if
	// that is known.
	Open bool
	// Doing is what it does, Since when. Live: it watches, and its first list is in the log.
	Doing source.State
	Since time.Time
	Live  bool
	// Err is why it waits, Failing since when; nil where it does not.
	Err     error
	Failing time.Time
	// Degraded: a wildcard names it, and it is only this one that may not be read, or is not to be had.
	Degraded bool
	// Objects are those that the log has as existing.
	Objects int
	// Published counts its events that the broker has acknowledged since the process started, PerSecond those of the
	// last ten seconds. LastEvent is when the last one was, to about a second; zero where there was none since the
	// stream was opened.
	Published int64
	PerSecond float64
	LastEvent time.Time
	// Refused is of how many objects the broker takes nothing, Refusal one of them with the reason.
	Refused int
	Refusal Refusal
	// Unsettled is how long the oldest change that is not settled has been known; zero where all are.
	Unsettled time.Duration
	Position  string
	Past      health.Past
}

// Refusal is why the broker takes nothing of an object; the zero Refusal is none.
type Refusal struct {
	Object string
	Err    error
}

// Report returns how the stream is doing.
func (s *Stream) Report(now time.Time) Report {
	st := Report{
		Name: s.Name, Namespace: s.Namespace, LabelSelector: s.LabelSelector, FieldSelector: s.FieldSelector, Open: true,
		Objects: s.Ledger.Len(), Position: s.Tracker.Position(), Past: s.Figures.Incidents.Past(),
	}
	if opened, ok := s.Tracker.Oldest(); ok {
		st.Unsettled = max(now.Sub(opened), 0)
	}
	total := s.Figures.Metrics.Total()
	st.Published, st.PerSecond, st.LastEvent = int64(total), s.Figures.Rate.PerSecond(total, now), s.Figures.Rate.Last()
	st.Degraded = s.Status.Degraded() != ""
	st.Refused, st.Refusal = s.Refusals.first()
	is := s.Status.Report()
	st.Doing, st.Since, st.Live, st.Failing, st.Err = is.Doing, is.Since, is.Live, is.Failing, is.Err
	return st
}

// Gauges returns what is measured of the stream.
func (s *Stream) Gauges() health.StreamGauges {
	g := health.StreamGauges{Name: s.Name, Objects: s.Ledger.Len(), Watching: s.Status.Watching()}
	if at, ok := s.Tracker.Oldest(); ok {
		g.Unsettled = time.Since(at)
	}
	if s.Before.Cache != nil {
		g.KeepsOlds = true
		g.Olds, g.OldBytes = s.Before.Cache.Total()
	}
	return g
}

// Named returns r with what it does not know itself.
func (s *Stream) Named(r resyncs.Resync) resyncs.Resync {
	r.Pipeline, r.Stream, r.Objects = s.Env.Pipeline, s.Name, s.Ledger.Len()
	return r
}
