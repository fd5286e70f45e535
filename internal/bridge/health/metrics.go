// SPDX-License-Identifier: Apache-2.0

package health

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/kube-eventbridge/kube-eventbridge/internal/metric"
)

// Metrics are those of the pipelines of a process. Its methods may be called by several goroutines at a time.
type Metrics struct {
	streamCounters
	pipelineCounters
	gauges
	publishSeconds, deliverySeconds *prometheus.HistogramVec

	mu        sync.Mutex
	pipelines []Gauged
	// kinds are the counters of published events of each stream, as they outlive the stream.
	kinds map[[2]string]*sync.Map
}

// streamCounters is what is counted of each stream.
type streamCounters struct {
	published, restarts, failures, relists, gaps, synthesized, suppressed, histories *prometheus.CounterVec
	resyncs, audits, differences, filtered, filterErrors, oversized, unknownOlds     *prometheus.CounterVec
}

// pipelineCounters is what is counted of each pipeline.
type pipelineCounters struct{ retries, losses, foreign *prometheus.CounterVec }

// gauges is what is measured when Prometheus asks.
type gauges struct {
	oldest, buffered, gone, limit, events, depth, refused, age, ready *prometheus.Desc
	ledger, streams, olds, oldBytes, ended                            *prometheus.Desc
}

// Gauged is a pipeline that is measured.
type Gauged interface {
	// Named returns the pipeline's name, and whether it does not run any more.
	Named() (name string, ended bool)
	// Gauges is called only of a pipeline that runs, or will run.
	Gauges() Gauges
}

// NewMetrics returns metrics registered with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	buckets := prometheus.ExponentialBuckets(0.0005, 2, 18)
	m := &Metrics{
		streamCounters: streamCounters{
			published:    metric.NewCounter("events_published_total"),
			restarts:     metric.NewCounter("watch_restarts_total"),
			failures:     metric.NewCounter("publish_failures_total"),
			relists:      metric.NewCounter("relists_total"),
			gaps:         metric.NewCounter("gaps_total"),
			synthesized:  metric.NewCounter("synthesized_deletes_total"),
			suppressed:   metric.NewCounter("duplicates_suppressed_total"),
			histories:    metric.NewCounter("histories_total"),
			resyncs:      metric.NewCounter("resyncs_total"),
			audits:       metric.NewCounter("audits_total"),
			differences:  metric.NewCounter("audit_differences_total"),
			filtered:     metric.NewCounter("events_filtered_total"),
			filterErrors: metric.NewCounter("filter_errors_total"),
			oversized:    metric.NewCounter("oversized_total"),
			unknownOlds:  metric.NewCounter("old_objects_unknown_total"),
		},
		pipelineCounters: pipelineCounters{
			retries: metric.NewCounter("publish_retries_total"),
			losses:  metric.NewCounter("log_losses_total"),
			foreign: metric.NewCounter("foreign_events_total"),
		},
		gauges: gauges{
			oldest:   metric.NewDesc("oldest_unsettled_seconds"),
			buffered: metric.NewDesc("buffered_bytes"),
			gone:     metric.NewDesc("deleted_objects_bytes"),
			limit:    metric.NewDesc("buffer_limit_bytes"),
			events:   metric.NewDesc("buffered_events"),
			depth:    metric.NewDesc("queue_depth"),
			refused:  metric.NewDesc("refused_objects"),
			age:      metric.NewDesc("checkpoint_age_seconds"),
			ready:    metric.NewDesc("broker_ready"),
			ledger:   metric.NewDesc("ledger_objects"),
			olds:     metric.NewDesc("old_objects"),
			oldBytes: metric.NewDesc("old_objects_bytes"),
			streams:  metric.NewDesc("stream_watching"),
			ended:    metric.NewDesc("pipeline_ended"),
		},
		publishSeconds:  metric.NewHistogram("publish_seconds", buckets),
		deliverySeconds: metric.NewHistogram("delivery_seconds", buckets),
	}
	for _, v := range append(m.ofStreams(), m.ofPipelines()...) {
		reg.MustRegister(v)
	}
	reg.MustRegister(m.publishSeconds, m.deliverySeconds, m)
	return m
}

// ofStreams returns what is counted of each stream.
func (m *Metrics) ofStreams() []*prometheus.CounterVec {
	return []*prometheus.CounterVec{
		m.published, m.restarts, m.failures, m.relists, m.gaps, m.synthesized, m.suppressed, m.histories, m.resyncs, m.audits,
		m.differences, m.filtered, m.filterErrors, m.oversized, m.unknownOlds,
	}
}

// ofPipelines returns what is counted of each pipeline.
func (m *Metrics) ofPipelines() []*prometheus.CounterVec {
	return []*prometheus.CounterVec{m.retries, m.losses, m.foreign}
}

// Add begins the gauges of a pipeline, in the place of those of one that has ended under its name.
func (m *Metrics) Add(p Gauged) {
	name, _ := p.Named()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pipelines = append(m.without(name), p)
}

// without returns the pipelines without those that have ended under a name. The caller holds mu.
func (m *Metrics) without(name string) []Gauged {
	return slices.DeleteFunc(slices.Clone(m.pipelines), func(o Gauged) bool {
		is, ended := o.Named()
		return is == name && ended
	})
}

// Hide ends the gauges of a pipeline that has ended. What was counted stays, until Forget.
func (m *Metrics) Hide(pipeline string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pipelines = m.without(pipeline)
}

// Remove ends the gauges of a pipeline. What was counted stays, until Forget.
func (m *Metrics) Remove(p Gauged) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pipelines = slices.DeleteFunc(slices.Clone(m.pipelines), func(o Gauged) bool { return o == p })
}

// Forget removes the series of a pipeline that has ended while its process goes on. One that begins under the name
// later counts from 0.
func (m *Metrics) Forget(pipeline string) {
	of := prometheus.Labels{"pipeline": pipeline}
	for _, v := range append(m.ofStreams(), m.ofPipelines()...) {
		v.DeletePartialMatch(of)
	}
	m.publishSeconds.DeletePartialMatch(of)
	m.deliverySeconds.DeletePartialMatch(of)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pipelines = m.without(pipeline)
	maps.DeleteFunc(m.kinds, func(key [2]string, _ *sync.Map) bool { return key[0] == pipeline })
}

// Pipeline are the counters of a pipeline.
type Pipeline struct{ Retries, Losses, Foreign prometheus.Counter }

// Pipeline returns the counters of a pipeline, which are there before they count.
func (m *Metrics) Pipeline(name string) Pipeline {
	return Pipeline{
		Retries: m.retries.WithLabelValues(name), Losses: m.losses.WithLabelValues(name),
		Foreign: m.foreign.WithLabelValues(name),
	}
}

// Counters are those of a stream that need no other label.
type Counters struct {
	Failures, Relists, Gaps, Synthesized, Suppressed, Histories, Resyncs prometheus.Counter
	Audits, Differences, FilterErrors, Oversized, UnknownOlds            prometheus.Counter
}

// Stream is what is counted and observed of a stream.
type Stream struct {
	Counters
	// Publish and Delivery observe seconds: from the call of the broker, and from the write to the API server, to the
	// acknowledgement.
	Publish, Delivery prometheus.Observer

	all            *Metrics
	pipeline, name string
	kinds          *sync.Map
}

// kind is of which events there are series: op and reason are the values of their labels.
type kind struct{ op, reason string }

// Stream returns the counters of a stream. Those that need no other label are there before they count.
func (m *Metrics) Stream(pipeline, name string) *Stream {
	of := func(v *prometheus.CounterVec) prometheus.Counter { return v.WithLabelValues(pipeline, name) }
	return &Stream{
		Counters: Counters{
			Failures: of(m.failures), Relists: of(m.relists), Gaps: of(m.gaps), Synthesized: of(m.synthesized),
			Suppressed: of(m.suppressed), Histories: of(m.histories), Resyncs: of(m.resyncs), Audits: of(m.audits),
			Differences: of(m.differences), FilterErrors: of(m.filterErrors), Oversized: of(m.oversized),
			UnknownOlds: of(m.unknownOlds),
		},
		Publish: m.publishSeconds.WithLabelValues(pipeline), Delivery: m.deliverySeconds.WithLabelValues(pipeline),
		all: m, pipeline: pipeline, name: name, kinds: m.kindsOf(pipeline, name),
	}
}

// kindsOf returns the counters of a stream's published events, which may be there from a session before.
func (m *Metrics) kindsOf(pipeline, stream string) *sync.Map {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := [2]string{pipeline, stream}
	if m.kinds == nil {
		m.kinds = map[[2]string]*sync.Map{}
	}
	if m.kinds[key] == nil {
		m.kinds[key] = &sync.Map{}
	}
	return m.kinds[key]
}

// Published returns the counter of published events of an operation and a reason. It is there from the first call on.
func (s *Stream) Published(op, reason string) prometheus.Counter {
	k := kind{op, reason}
	if c, ok := s.kinds.Load(k); ok {
		return c.(prometheus.Counter)
	}
	c := s.all.published.WithLabelValues(op, s.pipeline, reason, s.name)
	s.kinds.Store(k, c)
	return c
}

// Filtered counts one change that is not published.
func (s *Stream) Filtered(reason string) {
	s.all.filtered.WithLabelValues(s.pipeline, reason, s.name).Inc()
}

// Restarted counts one watch that ended.
func (s *Stream) Restarted(reason string) {
	s.all.restarts.WithLabelValues(s.pipeline, reason, s.name).Inc()
}

// Total returns how many events of the stream were published since the process started.
func (s *Stream) Total() (n float64) {
	var value dto.Metric
	s.kinds.Range(func(_, counter any) bool {
		if counter.(prometheus.Counter).Write(&value) == nil {
			n += value.GetCounter().GetValue()
		}
		return true
	})
	return n
}

// Drop removes the series of a stream that is not read any more.
func (s *Stream) Drop() {
	of := prometheus.Labels{"pipeline": s.pipeline, "stream": s.name}
	for _, v := range s.all.ofStreams() {
		v.DeletePartialMatch(of)
	}
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	delete(s.all.kinds, [2]string{s.pipeline, s.name})
}
