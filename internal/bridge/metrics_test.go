// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"reflect"
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
	s.status.Restarted("closed")
	r.settle()
	return r
}

// What begins to be counted can be seen to rise only from a 0.
func TestMetrics_of_a_stream_are_there_before_they_count(t *testing.T) {
	registry := prometheus.NewRegistry()
	NewMetrics(registry).stream("p", "s")
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
		out = append(out, fmt.Sprintf("%s %s{%s} %s", strings.ToLower(f.GetType().String()), f.GetName(), strings.Join(labels, ","), f.GetHelp()))
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
		"events_published_total": 3, "publish_seconds": 6, "gaps_total": 1, "relists_total": 1, "synthesized_deletes_total": 1,
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

// Only where it is known when the object became what the event says can be told how long its delivery took.
func TestWrittenAt_is_of_watched_writes_that_tell(t *testing.T) {
	const at = 1772359200
	for _, c := range []struct {
		name string
		a    attempt
		told bool
	}{
		{"an update", attempt{delta: delta{Change: source.Change{Op: source.Updated, Reason: source.ReasonWatch, Written: at}}}, true},
		{"a newer one", attempt{delta: delta{Change: source.Change{
			Op: source.Updated, Reason: source.ReasonWatch, Written: at, Follows: true, Before: at - 1,
		}}}, true},
		{"one that leaves no time", attempt{delta: delta{Change: source.Change{
			Op: source.Updated, Reason: source.ReasonWatch, Written: at, Follows: true, Before: at,
		}}}, false},
		{"a deletion", attempt{delta: delta{Change: source.Change{Op: source.Deleted, Reason: source.ReasonWatch, Written: at}}}, false},
		{"of a first list", attempt{delta: delta{Change: source.Change{Op: source.Added, Reason: source.ReasonSnapshot, Written: at}}}, false},
		{"a marker", attempt{marker: &marker{}, delta: delta{Change: source.Change{Op: source.Updated, Reason: source.ReasonWatch, Written: at}}}, false},
	} {
		got := writtenAt(&c.a)
		assert.True(t, c.told == (got.Unix() == at) && c.told != got.IsZero(), "%s: %v", c.name, got)
	}
}

// What is not read any more leaves no series behind, and takes none of another's.
func TestMetrics_of_a_stream_or_a_pipeline_go_with_it(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	here, other, neighbour := m.stream("p", "here"), m.stream("p", "other"), m.stream("q", "here")
	for _, s := range []*streamMetrics{&here, &other, &neighbour} {
		s.filtered("operation")
		s.counter(kind{source.Added, source.ReasonWatch}).Inc()
		s.publish.Observe(1)
		s.delivery.Observe(1)
		s.all.restarts.WithLabelValues(s.pipeline, "ended", s.stream).Inc()
		s.all.losses.WithLabelValues(s.pipeline).Inc()
		s.all.retries.WithLabelValues(s.pipeline).Inc()
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
	here.drop()
	assert.Len(t, series("stream", "here"), len(of), "left")
	got := series("stream", "other")
	assert.True(t, len(of) >= 10 && slices.Equal(got, of), "of another stream there is %v, was %v", got, of)
	m.Forget("p")
	assert.Empty(t, series("pipeline", "p"), "left")
	if got := series("pipeline", "q"); len(beside) < 14 || !slices.Equal(got, beside) || neighbour.total() != 1 {
		t.Errorf("of another pipeline there is %v, was %v", got, beside)
	}
	again := m.stream("p", "other")
	n := again.total()
	assert.True(t, n == 0, "a new counter has counted %v", n)
}

// What may be true of every event is said now and then, and not only once.
func TestOften_has_an_interval_for_all(t *testing.T) {
	var o often
	o.set(logEvery)
	all := reflect.ValueOf(&o).Elem()
	for i := range all.NumField() {
		assert.Equal(t, int64(logEvery), all.Field(i).FieldByName("Interval").Int(),
			"%s has the interval", all.Type().Field(i).Name)
	}
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
