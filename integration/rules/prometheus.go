// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/monitoring"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// Prometheus is one whose time runs faster: scrapes that are moments apart are half a minute apart for the rules. Its
// methods are for the test's own goroutine.
type Prometheus struct {
	// Servers are what is scraped, by the name of the instance.
	Servers map[string]string
	// Seen are the metrics that a server has told.
	Seen map[string]bool

	t        testing.TB
	settings map[string]string
	series   Series
	step     int
	spans    []span
}

// NewPrometheus returns one that scrapes servers, and whose rules have settings that are not the default ones.
func NewPrometheus(t testing.TB, servers, settings map[string]string) *Prometheus {
	return &Prometheus{Servers: servers, Seen: make(map[string]bool), t: t, settings: settings}
}

// Step is how many scrapes there were.
func (p *Prometheus) Step() int { return p.step }

// Hold scrapes once, and lets what is seen last for that many steps.
func (p *Prometheus) Hold(steps int) {
	p.t.Helper()
	families := p.Scrape()
	for range steps {
		p.add(families)
	}
}

// Grows lets a counter grow once for each of n sights of some steps.
func (p *Prometheus) Grows(n, steps int, name string) {
	p.t.Helper()
	for range n {
		before := p.Most(name)
		p.Told(name, func(v float64) bool { return v > before })
		p.Hold(steps)
	}
}

// Sighting is one sample without its time.
type Sighting struct {
	Labels labels.Labels
	Value  float64
}

// Name is the metric's.
func (s *Sighting) Name() string { return s.Labels.Get(model.MetricNameLabel) }

func (p *Prometheus) add(all []Sighting) {
	for _, s := range all {
		p.series.Add(s.Labels, p.step, s.Value)
	}
	p.step++
}

// Scrape reads counters and gauges. A server that does not answer is a scrape that failed.
func (p *Prometheus) Scrape() (all []Sighting) {
	p.t.Helper()
	for instance, server := range p.Servers {
		all = append(all, p.Ask(instance, server)...)
	}
	return all
}

// Ask reads what one server tells.
func (p *Prometheus) Ask(instance, server string) []Sighting {
	p.t.Helper()
	target := labels.NewBuilder(labels.FromStrings("job", "kube-eventbridge", "instance", instance, "namespace", "test"))
	up := func(v float64) Sighting { return Sighting{target.Set(model.MetricNameLabel, "up").Labels(), v} }
	_, text, _, err := rig.Get(context.WithoutCancel(p.t.Context()), server, "/metrics")
	if err != nil {
		return []Sighting{up(0)}
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families := must.Get(parser.TextToMetricFamilies(strings.NewReader(text)))(p.t)
	all := []Sighting{up(1)}
	for name, f := range families {
		p.Seen[name] = true
		for _, m := range f.GetMetric() {
			if m.GetHistogram() != nil || m.GetSummary() != nil {
				continue
			}
			of := labels.NewBuilder(target.Labels()).Set(model.MetricNameLabel, name)
			for _, l := range m.GetLabel() {
				of.Set(l.GetName(), l.GetValue())
			}
			all = append(all, Sighting{of.Labels(), m.GetCounter().GetValue() + m.GetGauge().GetValue() +
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

// During notes from when to when alerts should fire.
func (p *Prometheus) During(fault, remedy func(), alerts ...string) {
	p.t.Helper()
	s := span{alerts: alerts, from: p.step}
	fault()
	s.until = p.step
	remedy()
	s.end = p.step
	p.spans = append(p.spans, s)
}

// Also names what else the last fault or its remedy may bring.
func (p *Prometheus) Also(alerts ...string) { p.spans[len(p.spans)-1].also = alerts }

// Told waits until a metric, of any instance, has a value that is right.
func (p *Prometheus) Told(name string, right func(float64) bool) {
	p.t.Helper()
	rig.Poll(p.t, name, func() (bool, string) {
		return slices.ContainsFunc(p.Scrape(), func(s Sighting) bool {
			return s.Name() == "kube_eventbridge_"+name && right(s.Value)
		}), "no instance tells so"
	})
}

// Judge fails the test for each alert that did not fire when it should, or fired when it should not.
func (p *Prometheus) Judge() {
	p.t.Helper()
	text := must.Get(monitoring.Rules(monitoring.Defaults(p.settings)))(p.t)
	r := must.Get(Parse(text))(p.t)
	fired := must.Get(r.Firing(p.t.Context(), &p.series, p.step))(p.t)
	for _, s := range p.spans {
		for _, alert := range s.alerts {
			is := func(a Alert) bool { return a.Name == alert }
			if !slices.ContainsFunc(fired[s.from:s.until], func(at []Alert) bool { return slices.ContainsFunc(at, is) }) {
				p.t.Errorf("%s does not fire from step %d to %d", alert, s.from, s.until)
			}
		}
	}
	said := map[string]bool{}
	for step, all := range fired {
		for _, a := range all {
			due := func(s span) bool {
				return s.from <= step && step < s.end-1 && (slices.Contains(s.alerts, a.Name) || slices.Contains(s.also, a.Name))
			}
			if !said[a.Name] && !slices.ContainsFunc(p.spans, due) {
				said[a.Name] = true
				p.t.Errorf("%s fires at step %d, where nothing calls for it: %s", a.Name, step, a.Summary)
			}
		}
	}
}

// Most is the largest value that any instance has for a metric.
func (p *Prometheus) Most(name string) (most float64) {
	for _, s := range p.Scrape() {
		if s.Name() == "kube_eventbridge_"+name {
			most = max(most, s.Value)
		}
	}
	return most
}
