// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/integration/rules"
	"github.com/kube-eventbridge/kube-eventbridge/internal/metric"
	"github.com/kube-eventbridge/kube-eventbridge/internal/monitoring"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// eyes are a Prometheus whose time runs faster: scrapes that are moments apart are half a minute apart for the rules.
type eyes struct {
	*fixture
	// servers are what is scraped, by the name of the instance.
	servers  map[string]string
	settings map[string]string
	series   rules.Series
	step     int
	seen     map[string]bool
	spans    []span
}

func newEyes(r *fixture, settings map[string]string) *eyes {
	return &eyes{fixture: r, servers: map[string]string{"a": r.server}, settings: settings, seen: map[string]bool{}}
}

// hold scrapes once, and lets what is seen last for that many steps.
func (e *eyes) hold(steps int) {
	e.t.Helper()
	families := e.scrape()
	for range steps {
		e.add(families)
	}
}

// grows lets a counter grow once for each of n sights of some steps.
func (e *eyes) grows(n, steps int, name string) {
	e.t.Helper()
	for range n {
		before := e.most(name)
		e.told(name, func(v float64) bool { return v > before })
		e.hold(steps)
	}
}

// sighting is one sample without its time.
type sighting struct {
	labels labels.Labels
	value  float64
}

func (e *eyes) add(all []sighting) {
	for _, s := range all {
		e.series.Add(s.labels, e.step, s.value)
	}
	e.step++
}

// scrape reads counters and gauges. A server that does not answer is a scrape that failed.
func (e *eyes) scrape() (all []sighting) {
	e.t.Helper()
	for instance, server := range e.servers {
		all = append(all, e.ask(instance, server)...)
	}
	return all
}

func (e *eyes) ask(instance, server string) []sighting {
	e.t.Helper()
	target := labels.NewBuilder(labels.FromStrings("job", "kube-eventbridge", "instance", instance, "namespace", "test"))
	up := func(v float64) sighting { return sighting{target.Set(model.MetricNameLabel, "up").Labels(), v} }
	response, err := http.Get("http://" + server + "/metrics")
	if err != nil {
		return []sighting{up(0)}
	}
	defer func() { _ = response.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families := must.Get(parser.TextToMetricFamilies(response.Body))(e.t)
	all := []sighting{up(1)}
	for name, f := range families {
		e.seen[name] = true
		for _, m := range f.GetMetric() {
			if m.GetHistogram() != nil || m.GetSummary() != nil {
				continue
			}
			of := labels.NewBuilder(target.Labels()).Set(model.MetricNameLabel, name)
			for _, l := range m.GetLabel() {
				of.Set(l.GetName(), l.GetValue())
			}
			all = append(all, sighting{of.Labels(), m.GetCounter().GetValue() + m.GetGauge().GetValue() +
				m.GetUntyped().GetValue()})
		}
	}
	return all
}

// span is when alerts should fire, in steps, and only then; they may begin later than it and last into ends, where the
// remedy has had its time.
type span struct {
	alerts           []string
	from, until, end int
	also             []string // may fire as well
}

// during notes from when to when alerts should fire.
func (e *eyes) during(fault, remedy func(), alerts ...string) {
	e.t.Helper()
	s := span{alerts: alerts, from: e.step}
	fault()
	s.until = e.step
	remedy()
	s.end = e.step
	e.spans = append(e.spans, s)
}

// also names what else the last fault or its remedy may bring.
func (e *eyes) also(alerts ...string) { e.spans[len(e.spans)-1].also = alerts }

// ready waits until all is well, and lets that last.
func (e *eyes) ready(steps int) {
	e.t.Helper()
	e.awaitStatus(200, "ok")
	e.poll("all to be in the log", func() (bool, string) { return e.settled(), "there is something unsettled" })
	e.hold(steps)
}

// told waits until a metric, of any instance, has a value that is right.
func (e *eyes) told(name string, right func(float64) bool) {
	e.t.Helper()
	e.eventually(name, func() bool {
		return slices.ContainsFunc(e.scrape(), func(s sighting) bool {
			return s.labels.Get(model.MetricNameLabel) == "kube_eventbridge_"+name && right(s.value)
		})
	})
}

func (e *eyes) judge() {
	e.t.Helper()
	text := must.Get(monitoring.Rules(monitoring.Defaults(e.settings)))(e.t)
	r := must.Get(rules.Parse(text))(e.t)
	fired := must.Get(r.Firing(e.t.Context(), &e.series, e.step))(e.t)
	for _, s := range e.spans {
		for _, alert := range s.alerts {
			is := func(a rules.Alert) bool { return a.Name == alert }
			if !slices.ContainsFunc(fired[s.from:s.until], func(at []rules.Alert) bool { return slices.ContainsFunc(at, is) }) {
				e.t.Errorf("%s does not fire from step %d to %d", alert, s.from, s.until)
			}
		}
	}
	said := map[string]bool{}
	for step, all := range fired {
		for _, a := range all {
			due := func(s span) bool {
				return s.from <= step && step < s.end-1 && (slices.Contains(s.alerts, a.Name) || slices.Contains(s.also, a.Name))
			}
			if !said[a.Name] && !slices.ContainsFunc(e.spans, due) {
				said[a.Name] = true
				e.t.Errorf("%s fires at step %d, where nothing calls for it: %s", a.Name, step, a.Summary)
			}
		}
	}
}

// The faults of docs/operations.md, its remedies, and the rules as they are.
func TestRunbook_alerts_fire_on_the_fault_and_end_by_the_remedy(t *testing.T) {
	rig.Parallel(t, rig.All)
	r := newRig(t, watched)
	replaced(t, r.config, r.config, "dataDir:", "buffer: {maxBytes: 1Mi}\ndataDir:")
	// What takes minutes elsewhere takes moments here.
	e := newEyes(r, map[string]string{"behindSeconds": "1", "watchRestarts": "0"})
	e.during(func() { e.hold(25) }, func() {
		r.run()
		e.ready(30)
	}, "KubeEventbridgeDown", "KubeEventbridgeAbsent")
	e.definedOnly()

	e.during(func() {
		r.broker.stop()
		e.fill(30, 100_000)
		e.told("broker_ready", func(v float64) bool { return v == 0 })
		e.told("oldest_unsettled_seconds", func(v float64) bool { return v > 1 })
		e.told("buffered_bytes", func(v float64) bool { return v > 0.9*(1<<20) })
		e.hold(15)
	}, func() {
		r.broker.start()
		e.ready(20)
	}, "KubeEventbridgeBrokerAway", "KubeEventbridgeBehind", "KubeEventbridgeBufferFull")

	e.during(func() {
		require.NoError(t, r.api.StopAPIServer(context.WithoutCancel(t.Context())))
		e.told("stream_watching", func(v float64) bool { return v == 0 })
		e.grows(2, 12, "watch_restarts_total") // what was not there before has not grown
	}, func() {
		require.NoError(t, r.api.StartAPIServer(context.WithoutCancel(t.Context())))
		e.ready(70)
	}, "KubeEventbridgeNotWatching", "KubeEventbridgeWatchesRestart")
	e.also("KubeEventbridgeGap")

	e.during(func() {
		r.bridge.stop()
		require.NoError(t, r.js.DeleteStream(t.Context(), "KUBERNETES"))
		r.run()
		e.ready(10)
	}, func() { e.hold(160) }, "KubeEventbridgeLogLost")

	e.during(func() {
		second := e.twin()
		e.fill(1, 10)
		e.eventually("both to find the other", func() bool {
			e.touch()
			return slices.Equal(e.foreign(), []bool{true, true})
		})
		e.hold(1)
		second.stop()
		delete(e.servers, "b")
	}, func() {
		e.ready(40)
	}, "KubeEventbridgeOtherWriter")
	e.also("KubeEventbridgeGap", "KubeEventbridgeBehind")
	e.judge()
}

// twin runs a second bridge with the same configuration and a directory of its own, as instance b.
func (e *eyes) twin() *bridge {
	e.t.Helper()
	first, server := e.bridge, freeAddress(e.t)
	config := filepath.Join(e.t.TempDir(), "twin.yaml")
	text := must.Get(os.ReadFile(e.config))(e.t)
	text = bytes.ReplaceAll(text, []byte(e.server), []byte(server))
	text = bytes.ReplaceAll(text, []byte(filepath.Join(e.dir, "data")), []byte(e.t.TempDir()))
	require.NoError(e.t, os.WriteFile(config, text, 0o600))
	e.servers["b"] = server
	second := e.startAt(server, nil, "run", "--config", config)
	e.bridge = first
	return second
}

// touch changes what fill has made last.
func (e *eyes) touch() {
	e.t.Helper()
	patch := fmt.Appendf(nil, `{"data":{"a":%q}}`, time.Now())
	name := fmt.Sprintf("large-%d-0", e.step)
	_, err := e.kube.CoreV1().ConfigMaps("default").Patch(e.t.Context(), name, types.MergePatchType, patch,
		metav1.PatchOptions{})
	require.NoError(e.t, err)
}

// foreign says of both bridges whether they know of the other.
func (e *eyes) foreign() (known []bool) {
	for _, instance := range []string{"a", "b"} {
		known = append(known, slices.ContainsFunc(e.ask(instance, e.servers[instance]), func(s sighting) bool {
			return s.labels.Get(model.MetricNameLabel) == "kube_eventbridge_foreign_events_total" && s.value > 0
		}))
	}
	return known
}

// fill makes as many ConfigMaps of some size.
func (e *eyes) fill(n, bytes int) {
	e.t.Helper()
	for i := range n {
		m := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("large-%d-%d", e.step, i)},
			Data:       map[string]string{"a": strings.Repeat("a", bytes)},
		}
		must.Get(e.kube.CoreV1().ConfigMaps("default").Create(e.t.Context(), m, metav1.CreateOptions{}))(e.t)
	}
}

// settled reports whether the stream watches, and all that was read is in the log.
func (e *eyes) settled() bool {
	told := false
	for _, s := range e.scrape() {
		switch s.labels.Get(model.MetricNameLabel) {
		case "kube_eventbridge_oldest_unsettled_seconds", "kube_eventbridge_buffered_events":
			if s.value > 0 {
				return false
			}
		case "kube_eventbridge_stream_watching":
			told = s.value == 1
		}
	}
	return told
}

// definedOnly compares what a bridge tells with what is defined.
func (e *eyes) definedOnly() {
	e.t.Helper()
	for _, m := range metric.All() {
		lazy := m.Name == "watch_restarts_total" || m.Name == "events_filtered_total" // from the first on
		assert.True(e.t, m.Optional || lazy || e.seen[m.FullName()], "%s is not there", m.FullName())
		delete(e.seen, m.FullName())
	}
	for name := range e.seen {
		assert.True(e.t, strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_"),
			"%s is there, and not defined", name)
	}
}
