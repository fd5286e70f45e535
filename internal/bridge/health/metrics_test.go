// SPDX-License-Identifier: Apache-2.0

package health

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/metric"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// What begins to be counted can be seen to rise only from a 0.
func TestMetrics_of_a_stream_are_there_before_they_count(t *testing.T) {
	registry := prometheus.NewRegistry()
	NewMetrics(registry).Stream("p", "s").Published("added", "watch")
	all := must.Get(registry.Gather())(t)
	zero := map[string]bool{}
	for _, f := range all {
		zero[f.GetName()] = f.GetMetric()[0].GetCounter().GetValue() == 0
	}
	for _, m := range metric.All() {
		lazy := m.Name == "watch_restarts_total" || m.Name == "events_filtered_total"
		assert.True(t, m.Type != metric.Counter || !slices.Contains(m.Labels, "stream") || lazy || zero[m.FullName()],
			"%s is not there", m.FullName())
	}
}

// What is not read any more leaves no series behind, and takes none of another's.
func TestMetrics_of_a_stream_or_a_pipeline_go_with_it(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	here, other, neighbour := m.Stream("p", "here"), m.Stream("p", "other"), m.Stream("q", "here")
	for _, s := range []*Stream{here, other, neighbour} {
		s.Filtered("operation")
		s.Published("added", "watch").Inc()
		s.Publish.Observe(1)
		s.Delivery.Observe(1)
		s.Restarted("ended")
		m.Pipeline(s.pipeline).Losses.Inc()
		m.Pipeline(s.pipeline).Retries.Inc()
	}
	series := func(label, value string) (names []string) {
		families := must.Get(registry.Gather())(t)
		for _, f := range families {
			for _, one := range f.GetMetric() {
				for _, l := range one.GetLabel() {
					if l.GetName() == label && l.GetValue() == value {
						names = append(names, f.GetName())
					}
				}
			}
		}
		return names
	}
	of, beside := series("stream", "other"), series("pipeline", "q")
	here.Drop()
	assert.Len(t, series("stream", "here"), len(of), "left")
	got := series("stream", "other")
	assert.True(t, len(of) >= 10 && slices.Equal(got, of), "of another stream there is %v, was %v", got, of)
	m.Forget("p")
	assert.Empty(t, series("pipeline", "p"), "left")
	if got := series("pipeline", "q"); len(beside) < 14 || !slices.Equal(got, beside) || neighbour.Total() != 1 {
		t.Errorf("of another pipeline there is %v, was %v", got, beside)
	}
	again := m.Stream("p", "other")
	n := again.Total()
	assert.True(t, n == 0, "a new counter has counted %v", n)
}

// What is counted of a stream outlives a session, and ends with the stream.
func TestStream_is_counted_on_in_the_next_session(t *testing.T) {
	m := NewMetrics(prometheus.NewRegistry())
	m.Stream("p", "s").Published("added", "watch").Add(5)
	second := m.Stream("p", "s")
	assert.EqualValues(t, 5, second.Total(), "in the second session")
	second.Drop()
	assert.Zero(t, m.Stream("p", "s").Total(), "of a stream that has ended")
}

// named is a pipeline that may have ended.
type named struct {
	name  string
	ended bool
}

func (n *named) Named() (string, bool) { return n.name, n.ended }
func (n *named) Gauges() Gauges        { return Gauges{Running: true, Buffered: 7} }

func TestMetrics_has_gauges_of_pipelines_until_they_are_removed(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	families := func() (names []string) {
		for _, f := range must.Get(registry.Gather())(t) {
			names = append(names, f.GetName())
		}
		return names
	}
	first := &named{name: "p"}
	m.Add(first)
	assert.Contains(t, families(), "kube_eventbridge_buffered_bytes")
	first.ended = true
	assert.NotContains(t, families(), "kube_eventbridge_buffered_bytes", "of a pipeline that has ended")
	assert.Contains(t, families(), "kube_eventbridge_pipeline_ended")
	second := &named{name: "p"}
	m.Add(second)
	assert.Contains(t, families(), "kube_eventbridge_buffered_bytes", "of the next one of the name")
	m.Hide("p")
	assert.Contains(t, families(), "kube_eventbridge_buffered_bytes", "of one that has not ended")
	m.Remove(second)
	assert.Empty(t, families())
}
