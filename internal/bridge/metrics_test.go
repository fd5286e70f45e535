// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/metric"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

func TestMetrics_are_those_that_are_defined(t *testing.T) {
	var want []string
	for _, m := range metric.All() {
		if slices.Contains(m.Labels, "pipeline") {
			want = append(want, fmt.Sprintf("%s %s{%s} %s", m.Type, m.FullName(), strings.Join(m.Labels, ","), m.Help))
		}
	}
	r := everyMetric(t)
	got := families(t, r.registry)
	slices.Sort(want)
	assert.Equal(t, want, got,
		"there are\n  %s\nand defined are\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
}

func TestMetrics_are_as_Prometheus_wants_them(t *testing.T) {
	problems := must.Get(testutil.GatherAndLint(everyMetric(t).registry))(t)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// everyMetric is a bridge of which all metrics have something to tell.
func everyMetric(t *testing.T) *rig {
	t.Helper()
	r := start(t, newFakeLog(), &memoryStore{})
	spec := without(source.Updated)
	spec.Olds = true
	s := r.stream(spec)
	snapshot(t, s, "10", "a u1 5")
	send(t, s, source.Updated, "a", "u1", "10", source.ReasonWatch)
	send(t, s, source.Deleted, "a", "u1", "11", source.ReasonWatch)
	s.Status.Restarted("closed")
	r.settle()
	return r
}

// What begins to be counted can be seen to rise only from a 0.
func TestMetrics_of_events_are_there_before_a_stream_has_any(t *testing.T) {
	r, _ := startStream(t, newFakeLog(), &memoryStore{})
	var ops []string
	for _, f := range must.Get(r.registry.Gather())(t) {
		if f.GetName() == "kube_eventbridge_events_published_total" {
			for _, m := range f.GetMetric() {
				assert.Zero(t, m.GetCounter().GetValue())
				ops = append(ops, m.GetLabel()[0].GetValue())
			}
		}
	}
	assert.Equal(t, []string{"added", "deleted", "updated"}, ops)
}

// families returns "type name{labels} help" of everything that g has.
func families(t *testing.T, g prometheus.Gatherer) []string {
	t.Helper()
	all := must.Get(g.Gather())(t)
	var out []string
	for _, f := range all {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		out = append(out, fmt.Sprintf("%s %s{%s} %s", strings.ToLower(f.GetType().String()), f.GetName(),
			strings.Join(labels, ","), f.GetHelp()))
	}
	slices.Sort(out)
	return out
}

// value returns the sum of a family over its labels; of a histogram, the number of observations.
func value(t *testing.T, g prometheus.Gatherer, name string) (sum float64) {
	t.Helper()
	all := must.Get(g.Gather())(t)
	for _, f := range all {
		if f.GetName() != "kube_eventbridge_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

func TestMetrics_count_what_happens(t *testing.T) {
	log := newFakeLog()
	gate := make(chan struct{})
	r, s := startStream(t, log, &memoryStore{})
	snapshot(t, s, "10", "a u1 5", "b u2 6")
	relist(t, s, "20", "a u1 5")
	log.set(func() { log.gate = gate })
	send(t, s, source.Updated, "a", "u1", "21", source.ReasonWatch)
	for name, want := range map[string]float64{
		"events_published_total": 3, "publish_seconds": 6, "gaps_total": 1, "relists_total": 1,
		"synthesized_deletes_total":   1,
		"duplicates_suppressed_total": 1, "ledger_objects": 1, "buffered_events": 1, "publish_failures_total": 0,
	} {
		got := value(t, r.registry, name)
		assert.True(t, got == want, "%s is %v, want %v", name, got, want)
	}
	for _, name := range []string{"oldest_unsettled_seconds", "buffered_bytes", "buffer_limit_bytes", "broker_ready"} {
		got := value(t, r.registry, name)
		assert.True(t, got > 0, "%s is %v, and an event is under way", name, got)
	}
	close(gate)
	r.settle()
	for _, name := range []string{"oldest_unsettled_seconds", "buffered_bytes", "buffered_events", "queue_depth"} {
		assert.EqualValues(t, 0, value(t, r.registry, name), "%s, and nothing is under way", name)
	}
	log.set(func() { log.refuse = func(m *sink.Message) bool { return strings.HasSuffix(m.ID, ".22.0") } })
	send(t, s, source.Updated, "a", "u1", "22", source.ReasonWatch)
	r.settle()
	got := value(t, r.registry, "publish_failures_total")
	assert.EqualValues(t, 1, got, "publish_failures_total is %v after a refusal", got)
}

func TestMetrics_may_be_read_while_the_buffer_changes(t *testing.T) {
	api, log := newAPIServer(t, 10), newFakeLog()
	b := begins(t, api, log, &memoryStore{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 200 {
			b.SetBuffer(int64(1<<20 + i))
		}
	}()
	for range 20 {
		must.Get(b.registry.Gather())(t)
	}
	<-done
}
