// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/kube-eventbridge/kube-eventbridge/source"
)

const namespace = "kube_eventbridge"

// Metrics are the bridge's own. One Metrics serves all pipelines of a process.
type Metrics struct {
	published, restarts                                                       *prometheus.CounterVec
	retries, failures, relists, gaps, synthesized, suppressed                 *prometheus.CounterVec
	histories, losses, audits, differences, filtered, filterErrors, oversized *prometheus.CounterVec
	resyncs, unknownOlds                                                      *prometheus.CounterVec
	publishSeconds, deliverySeconds                                           *prometheus.HistogramVec
	oldest, buffered, events, depth, age, ledger, streams, olds, oldBytes     *prometheus.Desc

	mu        sync.Mutex
	pipelines []*Pipeline
	// kinds are the counters of published events of each stream, as they outlive the stream.
	kinds map[[2]string]*sync.Map
}

// NewMetrics returns metrics registered with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(0.0005, 2, 18),
		}, []string{"pipeline"})
	}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
	}
	m := &Metrics{
		published:      counter("events_published_total", "Events that the broker acknowledged.", "pipeline", "stream", "op", "reason"),
		restarts:       counter("watch_restarts_total", "Watches and pages of lists that were broken off.", "pipeline", "stream", "reason"),
		retries:        counter("publish_retries_total", "Messages handed to the broker again.", "pipeline"),
		failures:       counter("publish_failures_total", "Messages that the broker refused for good.", "pipeline", "stream"),
		oversized:      counter("oversized_total", "Events that were too large for the broker and lost their object.", "pipeline", "stream"),
		relists:        counter("relists_total", "Lists because the history was gone.", "pipeline", "stream"),
		gaps:           counter("gaps_total", "Gaps announced.", "pipeline", "stream"),
		synthesized:    counter("synthesized_deletes_total", "Deletions that no watch has shown.", "pipeline", "stream"),
		suppressed:     counter("duplicates_suppressed_total", "Changes that the log had already.", "pipeline", "stream"),
		histories:      counter("histories_total", "Histories of the API server that were seen to begin, as when etcd is restored.", "pipeline", "stream"),
		audits:         counter("audits_total", "Comparisons of what exists with what the log has.", "pipeline", "stream"),
		differences:    counter("audit_differences_total", "Objects of which the log had another state than existed.", "pipeline", "stream"),
		resyncs:        counter("resyncs_total", "Times that everything that existed was published again.", "pipeline", "stream"),
		filtered:       counter("events_filtered_total", "Changes that the configuration says not to publish.", "pipeline", "stream", "reason"),
		filterErrors:   counter("filter_errors_total", "Changes that a filter could not decide on; they are published.", "pipeline", "stream"),
		unknownOlds:    counter("old_objects_unknown_total", "Changes of which it was asked what was before, and that was not known.", "pipeline", "stream"),
		losses:         counter("log_losses_total", "Times that the log was seen to have lost what it had acknowledged.", "pipeline"),
		publishSeconds: histogram("publish_seconds", "From handing a message to the sink to its acknowledgement."),
		deliverySeconds: histogram("delivery_seconds",
			"From a write at the API server, as far as the object tells (whole seconds), to the acknowledgement of its event."),
		oldest:   desc("oldest_unsettled_seconds", "Age of the oldest change that is not settled; 0 if all are.", "pipeline", "stream"),
		buffered: desc("buffered_bytes", "Bytes held between the API server and the broker's acknowledgement.", "pipeline"),
		events:   desc("buffered_events", "Changes held between the API server and the broker's acknowledgement.", "pipeline"),
		depth:    desc("queue_depth", "Objects that wait for a worker.", "pipeline"),
		age:      desc("checkpoint_age_seconds", "Time since the last commit of the checkpoint.", "pipeline"),
		ledger:   desc("ledger_objects", "Objects that the log has as existing.", "pipeline", "stream"),
		olds:     desc("old_objects", "Objects of which it is kept what was before.", "pipeline", "stream"),
		oldBytes: desc("old_objects_bytes", "Bytes that are held for that.", "pipeline", "stream"),
		streams:  desc("stream_watching", "1 while a watch is open, else 0.", "pipeline", "stream"),
	}
	reg.MustRegister(m.published, m.restarts, m.retries, m.failures, m.relists, m.gaps, m.synthesized, m.suppressed,
		m.histories, m.losses, m.filtered, m.filterErrors, m.audits, m.differences, m.resyncs, m.oversized, m.unknownOlds, m.publishSeconds, m.deliverySeconds, m)
	return m
}

// Watches registers metrics of watches that are shared.
func (m *Metrics) Watches(reg prometheus.Registerer, w *source.Watches) {
	gauge(reg, "shared_watches", "Watches that several streams may read.", func() float64 { return float64(w.Shared()) })
	gauge(reg, "shared_bytes", "Bytes held by shared watches for streams that have not read them yet, or join.", func() float64 { return float64(w.Held()) })
}

// Election registers metrics of a process that may lead, and records recorded bytes while another one does.
func (m *Metrics) Election(reg prometheus.Registerer, leads func() bool, recorded func() int64) {
	gauge(reg, "leader", "1 while this process leads, else 0.", func() float64 {
		if leads() {
			return 1
		}
		return 0
	})
	gauge(reg, "standby_bytes", "Bytes recorded behind the positions of the process that leads.", func() float64 { return float64(recorded()) })
}

func gauge(reg prometheus.Registerer, name, help string, value func() float64) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, value))
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.oldest, m.buffered, m.events, m.depth, m.age, m.ledger, m.streams, m.olds, m.oldBytes} {
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
		p := pipeline.current.Load()
		if p == nil {
			continue
		}
		gauge(m.buffered, float64(p.budget.bytes.Load()), p.name)
		gauge(m.events, float64(p.budget.count.Load()), p.name)
		gauge(m.depth, float64(p.queue.Len()), p.name)
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
			watching := 0.0
			if s.status.watching() {
				watching = 1
			}
			gauge(m.oldest, age, p.name, s.name)
			gauge(m.ledger, float64(s.ledger.Len()), p.name, s.name)
			gauge(m.streams, watching, p.name, s.name)
			if s.olds != nil {
				objects, bytes := s.olds.total()
				gauge(m.olds, float64(objects), p.name, s.name)
				gauge(m.oldBytes, float64(bytes), p.name, s.name)
			}
		}
	}
}

func (m *Metrics) add(p *Pipeline) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pipelines = append(m.pipelines, p)
}

// remove ends the gauges of a pipeline that has ended. What was counted stays.
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

func (m *Metrics) stream(pipeline, stream string) streamMetrics {
	return streamMetrics{
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
}

// drop removes the series of a stream that is not read any more.
func (m *streamMetrics) drop() {
	of := prometheus.Labels{"pipeline": m.pipeline, "stream": m.stream}
	for _, v := range []*prometheus.CounterVec{
		m.all.published, m.all.restarts, m.all.failures, m.all.relists, m.all.gaps, m.all.synthesized, m.all.suppressed, m.all.histories,
		m.all.audits, m.all.differences, m.all.filtered, m.all.filterErrors, m.all.oversized, m.all.resyncs, m.all.unknownOlds,
	} {
		v.DeletePartialMatch(of)
	}
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	delete(m.all.kinds, [2]string{m.pipeline, m.stream})
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

// writtenAt returns when the object of an encoded attempt was written; zero where it was not watched, or does not tell. The message is read here
// and not when it is acknowledged, since by then no processor has it at hand any more.
func writtenAt(a *attempt) (t time.Time) {
	if c := &a.delta.Change; a.marker != nil || c.Reason != source.ReasonWatch || c.Op == source.Deleted {
		return t
	}
	for _, attr := range a.message.Attributes {
		if attr.Name == "time" {
			t, _ = time.Parse(time.RFC3339, attr.Value)
			break
		}
	}
	return t
}

// filtered counts one change that is not published.
func (m *streamMetrics) filtered(reason string) {
	m.all.filtered.WithLabelValues(m.pipeline, m.stream, reason).Inc()
}

func (m *streamMetrics) counter(k kind) prometheus.Counter {
	if c, ok := m.byKind.Load(k); ok {
		return c.(prometheus.Counter)
	}
	c := m.all.published.WithLabelValues(m.pipeline, m.stream, k.op.String(), string(k.reason))
	m.byKind.Store(k, c)
	return c
}
