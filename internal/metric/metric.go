// SPDX-License-Identifier: Apache-2.0

package metric

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// namespace is in front of the names of metrics that are of this program alone.
const namespace = "kube_eventbridge"

// Type is what a metric's samples are.
type Type string

// The types.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
)

// Metric is one metric.
type Metric struct {
	// Name is without the namespace, unless Foreign: other programs have the same.
	Name    string
	Foreign bool
	Type    Type
	// Labels are sorted.
	Labels []string
	// Help is a sentence; Look says when a person should care.
	Help, Look string
	// Optional metrics are there only when Help says so.
	Optional bool
}

// FullName is the name at the outside.
func (m *Metric) FullName() string {
	if m.Foreign {
		return m.Name
	}
	return namespace + "_" + m.Name
}

// All returns all metrics of this program, in the order in which a person reads them. Go's own are not among them.
func All() []Metric {
	return slices.Concat(streams(), pipelines(), process(), replicas(), client())
}

// of returns the definition.
func of(name string, t Type) *Metric {
	all := All()
	for i := range all {
		if all[i].Name == name && all[i].Type == t {
			return &all[i]
		}
	}
	panic("BUG: " + string(t) + " " + name + " is not defined")
}

// NewCounter returns the counter that is defined with the name.
func NewCounter(name string) *prometheus.CounterVec {
	m := of(name, Counter)
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.FullName(), Help: m.Help}, m.Labels)
}

// NewHistogram returns the histogram that is defined with the name.
func NewHistogram(name string, buckets []float64) *prometheus.HistogramVec {
	m := of(name, Histogram)
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.FullName(), Help: m.Help, Buckets: buckets},
		m.Labels)
}

// NewGauge returns the gauge that is defined with the name and has no labels; its value is asked for when it is read.
func NewGauge(name string, value func() float64) prometheus.GaugeFunc {
	m := of(name, Gauge)
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: m.FullName(), Help: m.Help}, value)
}

// NewBuildInfo returns the gauge that is always 1, for the sake of its labels.
func NewBuildInfo(commit, goVersion, version string) prometheus.Collector {
	m := of("build_info", Gauge)
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.FullName(), Help: m.Help}, m.Labels)
	v.WithLabelValues(commit, goVersion, version).Set(1)
	return v
}

// NewDesc returns what a collector says of the gauge that is defined with the name.
func NewDesc(name string) *prometheus.Desc {
	m := of(name, Gauge)
	return prometheus.NewDesc(m.FullName(), m.Help, m.Labels, nil)
}

// NewCounterDesc returns what a collector says of the counter that is defined with the name.
func NewCounterDesc(name string) *prometheus.Desc {
	m := of(name, Counter)
	return prometheus.NewDesc(m.FullName(), m.Help, m.Labels, nil)
}

// Truth is the value of a gauge that says yes or no.
func Truth(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
