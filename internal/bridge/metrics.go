// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/kube-eventbridge/kube-eventbridge/internal/metric"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// Metrics are the bridge's own. One Metrics serves all pipelines of a process.
type Metrics struct {
	published, restarts                                                       *prometheus.CounterVec
	retries, failures, relists, gaps, synthesized, suppressed                 *prometheus.CounterVec
	histories, losses, audits, differences, filtered, filterErrors, oversized *prometheus.CounterVec
	resyncs, unknownOlds, foreign                                             *prometheus.CounterVec
	publishSeconds, deliverySeconds                                           *prometheus.HistogramVec
	oldest, buffered, gone, limit, events, depth, refused, age, ready         *prometheus.Desc
	ledger, streams, olds, oldBytes, ended                                    *prometheus.Desc

	mu        sync.Mutex
	pipelines []*Pipeline
	// kinds are the counters of published events of each stream, as they outlive the stream.
	kinds map[[2]string]*sync.Map
}

// NewMetrics returns metrics registered with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	buckets := prometheus.ExponentialBuckets(0.0005, 2, 18)
	m := &Metrics{
		published:       metric.NewCounter("events_published_total"),
		restarts:        metric.NewCounter("watch_restarts_total"),
		retries:         metric.NewCounter("publish_retries_total"),
		failures:        metric.NewCounter("publish_failures_total"),
		oversized:       metric.NewCounter("oversized_total"),
		relists:         metric.NewCounter("relists_total"),
		gaps:            metric.NewCounter("gaps_total"),
		synthesized:     metric.NewCounter("synthesized_deletes_total"),
		suppressed:      metric.NewCounter("duplicates_suppressed_total"),
		histories:       metric.NewCounter("histories_total"),
		audits:          metric.NewCounter("audits_total"),
		differences:     metric.NewCounter("audit_differences_total"),
		resyncs:         metric.NewCounter("resyncs_total"),
		filtered:        metric.NewCounter("events_filtered_total"),
		filterErrors:    metric.NewCounter("filter_errors_total"),
		unknownOlds:     metric.NewCounter("old_objects_unknown_total"),
		losses:          metric.NewCounter("log_losses_total"),
		foreign:         metric.NewCounter("foreign_events_total"),
		publishSeconds:  metric.NewHistogram("publish_seconds", buckets),
		deliverySeconds: metric.NewHistogram("delivery_seconds", buckets),
		oldest:          metric.NewDesc("oldest_unsettled_seconds"),
		buffered:        metric.NewDesc("buffered_bytes"),
		gone:            metric.NewDesc("deleted_objects_bytes"),
		limit:           metric.NewDesc("buffer_limit_bytes"),
		events:          metric.NewDesc("buffered_events"),
		depth:           metric.NewDesc("queue_depth"),
		refused:         metric.NewDesc("refused_objects"),
		age:             metric.NewDesc("checkpoint_age_seconds"),
		ready:           metric.NewDesc("broker_ready"),
		ledger:          metric.NewDesc("ledger_objects"),
		olds:            metric.NewDesc("old_objects"),
		oldBytes:        metric.NewDesc("old_objects_bytes"),
		streams:         metric.NewDesc("stream_watching"),
		ended:           metric.NewDesc("pipeline_ended"),
	}
	reg.MustRegister(m.published, m.restarts, m.retries, m.failures, m.relists, m.gaps, m.synthesized, m.suppressed,
		m.histories, m.losses, m.filtered, m.filterErrors, m.audits, m.differences, m.resyncs, m.oversized, m.unknownOlds, m.foreign,
		m.publishSeconds, m.deliverySeconds, m)
	return m
}

// Watches registers metrics of watches that are shared.
func (m *Metrics) Watches(reg prometheus.Registerer, w *source.Watches) {
	reg.MustRegister(
		metric.NewGauge("shared_watches", func() float64 { return float64(w.Shared()) }),
		metric.NewGauge("shared_bytes", func() float64 { return float64(w.Held()) }),
	)
}

// Election registers the metric of a process that may lead.
func (m *Metrics) Election(reg prometheus.Registerer, leads func() bool) {
	reg.MustRegister(metric.NewGauge("leader", func() float64 { return metric.Truth(leads()) }))
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
	pipelines := append([]*Pipeline(nil), m.pipelines...)
	m.mu.Unlock()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, pipeline := range pipelines {
		ended := pipeline.ended.Load() != nil
		gauge(m.ended, metric.Truth(ended), pipeline.cfg.Name)
		p := pipeline.current.Load()
		if p == nil || ended {
			continue
		}
		gone := p.gone()
		gauge(m.buffered, float64(p.budget.bytes.Load()+gone), p.name)
		gauge(m.gone, float64(gone), p.name)
		gauge(m.limit, float64(p.budget.limit()), p.name)
		gauge(m.ready, metric.Truth(p.takes()), p.name)
		gauge(m.events, float64(p.budget.count.Load()), p.name)
		gauge(m.depth, float64(p.queue.Len()), p.name)
		gauge(m.refused, float64(p.refusals.Load()), p.name)
		if at := p.saved.Load(); at != 0 {
			gauge(m.age, time.Since(time.Unix(0, at)).Seconds(), p.name)
		}
		for name, age := range p.unmet() {
			gauge(m.oldest, age.Seconds(), p.name, name)
		}
		for _, s := range p.opened() {
			age := 0.0
			if t, ok := s.tracker.Oldest(); ok {
				age = time.Since(t).Seconds()
			}
			gauge(m.oldest, age, p.name, s.name)
			gauge(m.ledger, float64(s.ledger.Len()), p.name, s.name)
			gauge(m.streams, metric.Truth(s.status.watching()), p.name, s.name)
			if s.olds != nil {
				objects, bytes := s.olds.total()
				gauge(m.olds, float64(objects), p.name, s.name)
				gauge(m.oldBytes, float64(bytes), p.name, s.name)
			}
		}
	}
}

// add begins the gauges of a pipeline, in the place of those of one that has ended under its name.
func (m *Metrics) add(p *Pipeline) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pipelines = append(m.without(p.cfg.Name), p)
}

// without returns the pipelines without those that have ended under a name. The caller holds mu.
func (m *Metrics) without(name string) []*Pipeline {
	return slices.DeleteFunc(slices.Clone(m.pipelines), func(o *Pipeline) bool {
		return o.cfg.Name == name && o.ended.Load() != nil
	})
}

// Hide ends the gauges of a pipeline that has ended. What was counted stays, until Forget.
func (m *Metrics) Hide(pipeline string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pipelines = m.without(pipeline)
}

// remove ends the gauges of a pipeline that has ended. What was counted stays, until Forget.
func (m *Metrics) remove(p *Pipeline) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pipelines = slices.DeleteFunc(slices.Clone(m.pipelines), func(o *Pipeline) bool { return o == p })
}

// streamMetrics are the series of one stream.
type streamMetrics struct {
	all                                                                *Metrics
	pipeline, stream                                                   string
	failures, relists, gaps, synthesized, suppressed, histories        prometheus.Counter
	audits, differences, resyncs, filterErrors, oversized, unknownOlds prometheus.Counter
	publish, delivery                                                  prometheus.Observer
	byKind                                                             *sync.Map
}

type kind struct {
	op     source.Op
	reason source.Reason
}

// stream returns the counters of a stream, which are there before they count; of those of what happens for many reasons, the common ones are.
func (m *Metrics) stream(pipeline, stream string) streamMetrics {
	s := streamMetrics{
		all: m, pipeline: pipeline, stream: stream,
		failures:     m.failures.WithLabelValues(pipeline, stream),
		relists:      m.relists.WithLabelValues(pipeline, stream),
		gaps:         m.gaps.WithLabelValues(pipeline, stream),
		synthesized:  m.synthesized.WithLabelValues(pipeline, stream),
		suppressed:   m.suppressed.WithLabelValues(pipeline, stream),
		histories:    m.histories.WithLabelValues(pipeline, stream),
		audits:       m.audits.WithLabelValues(pipeline, stream),
		differences:  m.differences.WithLabelValues(pipeline, stream),
		resyncs:      m.resyncs.WithLabelValues(pipeline, stream),
		filterErrors: m.filterErrors.WithLabelValues(pipeline, stream),
		oversized:    m.oversized.WithLabelValues(pipeline, stream),
		unknownOlds:  m.unknownOlds.WithLabelValues(pipeline, stream),
		publish:      m.publishSeconds.WithLabelValues(pipeline),
		delivery:     m.deliverySeconds.WithLabelValues(pipeline),
		byKind:       m.kindsOf(pipeline, stream),
	}
	for _, op := range []source.Op{source.Added, source.Updated, source.Deleted} {
		s.counter(kind{op, source.ReasonWatch})
	}
	return s
}

// drop removes the series of a stream that is not read any more.
func (m *streamMetrics) drop() {
	of := prometheus.Labels{"pipeline": m.pipeline, "stream": m.stream}
	for _, v := range m.all.ofStreams() {
		v.DeletePartialMatch(of)
	}
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	delete(m.all.kinds, [2]string{m.pipeline, m.stream})
}

// ofStreams returns what is counted of each stream.
func (m *Metrics) ofStreams() []*prometheus.CounterVec {
	return []*prometheus.CounterVec{
		m.published, m.restarts, m.failures, m.relists, m.gaps, m.synthesized, m.suppressed, m.histories, m.audits, m.differences, m.filtered, m.filterErrors, m.oversized, m.resyncs, m.unknownOlds,
	}
}

// Forget removes the series of a pipeline that has ended while its process goes on. One that begins under the name later counts from 0.
func (m *Metrics) Forget(pipeline string) {
	of := prometheus.Labels{"pipeline": pipeline}
	for _, v := range append(m.ofStreams(), m.retries, m.losses, m.foreign) {
		v.DeletePartialMatch(of)
	}
	m.publishSeconds.DeletePartialMatch(of)
	m.deliverySeconds.DeletePartialMatch(of)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pipelines = m.without(pipeline)
	maps.DeleteFunc(m.kinds, func(key [2]string, _ *sync.Map) bool { return key[0] == pipeline })
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

// total returns how many events of the stream were published since the process started.
func (m *streamMetrics) total() (n float64) {
	var value dto.Metric
	m.byKind.Range(func(_, counter any) bool {
		if counter.(prometheus.Counter).Write(&value) == nil {
			n += value.GetCounter().GetValue()
		}
		return true
	})
	return n
}

// published counts one acknowledged attempt.
func (m *streamMetrics) published(a *attempt, now time.Time) {
	m.publish.Observe(now.Sub(a.published).Seconds())
	if a.marker != nil {
		return
	}
	c := &a.delta.Change
	m.counter(kind{c.Op, c.Reason}).Inc()
	if !a.written.IsZero() {
		m.delivery.Observe(max(0, now.Sub(a.written).Seconds()))
	}
}

// writtenAt returns when the object of an encoded attempt was written; zero where it was not watched, or does not tell.
func writtenAt(a *attempt) (t time.Time) {
	if c := &a.delta.Change; a.marker == nil && c.Reason == source.ReasonWatch && c.Wrote(c.Written) {
		t = time.Unix(c.Written, 0)
	}
	return t
}

// filtered counts one change that is not published.
func (m *streamMetrics) filtered(reason string) {
	m.all.filtered.WithLabelValues(m.pipeline, reason, m.stream).Inc()
}

func (m *streamMetrics) counter(k kind) prometheus.Counter {
	if c, ok := m.byKind.Load(k); ok {
		return c.(prometheus.Counter)
	}
	c := m.all.published.WithLabelValues(k.op.String(), m.pipeline, string(k.reason), m.stream)
	m.byKind.Store(k, c)
	return c
}
