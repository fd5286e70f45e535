// SPDX-License-Identifier: Apache-2.0

package health

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kube-eventbridge/kube-eventbridge/internal/metric"
)

// Gauges are what is measured of a pipeline at a moment.
type Gauges struct {
	// Running says that the pipeline has started. Nothing else is told otherwise.
	Running bool
	// Buffered are the bytes that are held, Deleted those of them that are of objects that do not exist any more, Limit
	// how many may be held.
	Buffered, Deleted, Limit int64
	// Ready says that the broker takes what it is handed.
	Ready bool
	// Events wait for their acknowledgement, Queued objects for a worker, and Refused objects for a broker that takes
	// nothing of them.
	Events, Queued, Refused int64
	// Saved is when the checkpoint was saved last; zero before that.
	Saved time.Time
	// Unmet is how long streams that are not open yet have been waiting for the end of the log to be read, by name.
	Unmet   map[string]time.Duration
	Streams []StreamGauges
}

// StreamGauges are what is measured of a stream at a moment.
type StreamGauges struct {
	Name string
	// Unsettled is how long the oldest change that is not settled has been known; zero where all are.
	Unsettled time.Duration
	// Objects are those that the log has as existing.
	Objects  int
	Watching bool
	// KeepsOlds says that previous states are kept: so many, of so many bytes.
	KeepsOlds bool
	Olds      int
	OldBytes  int64
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		m.oldest, m.buffered, m.gone, m.limit, m.events, m.depth, m.refused, m.age, m.ready,
		m.ledger, m.streams, m.olds, m.oldBytes, m.ended,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	pipelines := slices.Clone(m.pipelines)
	m.mu.Unlock()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, p := range pipelines {
		name, ended := p.Named()
		gauge(m.ended, metric.Truth(ended), name)
		if ended {
			continue
		}
		g := p.Gauges()
		if !g.Running {
			continue
		}
		for d, v := range map[*prometheus.Desc]float64{
			m.buffered: float64(g.Buffered), m.gone: float64(g.Deleted), m.limit: float64(g.Limit),
			m.ready: metric.Truth(g.Ready), m.events: float64(g.Events), m.depth: float64(g.Queued),
			m.refused: float64(g.Refused),
		} {
			gauge(d, v, name)
		}
		if !g.Saved.IsZero() {
			gauge(m.age, time.Since(g.Saved).Seconds(), name)
		}
		for stream, age := range g.Unmet {
			gauge(m.oldest, age.Seconds(), name, stream)
		}
		for i := range g.Streams {
			m.collect(gauge, name, &g.Streams[i])
		}
	}
}

// collect tells what is measured of a stream.
func (m *Metrics) collect(gauge func(*prometheus.Desc, float64, ...string), pipeline string, s *StreamGauges) {
	gauge(m.oldest, s.Unsettled.Seconds(), pipeline, s.Name)
	gauge(m.ledger, float64(s.Objects), pipeline, s.Name)
	gauge(m.streams, metric.Truth(s.Watching), pipeline, s.Name)
	if s.KeepsOlds {
		gauge(m.olds, float64(s.Olds), pipeline, s.Name)
		gauge(m.oldBytes, float64(s.OldBytes), pipeline, s.Name)
	}
}
