// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kube-eventbridge/kube-eventbridge/internal/metric"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica"
)

// collector tells how replicas are, when it is asked.
type collector struct {
	replicas                                                                 []*replica.Replica
	running, caughtUp, lag, pending, objects, heldDeletes, heldEpoch, parked *prometheus.Desc
	writes, failing                                                          *prometheus.Desc
}

// Metrics returns the metrics of replicas. One that does not run in this process has only replica_running.
func Metrics(replicas []*replica.Replica) prometheus.Collector {
	return &collector{
		replicas: replicas, running: metric.NewDesc("replica_running"), caughtUp: metric.NewDesc("replica_caught_up"),
		lag: metric.NewDesc("replica_lag_seconds"), pending: metric.NewDesc("replica_pending_objects"),
		objects: metric.NewDesc("replica_objects"), heldDeletes: metric.NewDesc("replica_held_deletes"),
		heldEpoch: metric.NewDesc("replica_held_epoch"),
		parked:    metric.NewDesc("replica_parked_objects"), writes: metric.NewCounterDesc("replica_writes_total"),
		failing: metric.NewDesc("replica_failing_seconds"),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.running, c.caughtUp, c.lag, c.pending, c.objects, c.heldDeletes, c.heldEpoch, c.parked, c.writes,
		c.failing,
	} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	for _, r := range c.replicas {
		s, running := r.Status()
		gauge := func(d *prometheus.Desc, value float64, labels ...string) {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, append(labels, s.Name)...)
		}
		gauge(c.running, metric.Truth(running))
		if !running {
			continue
		}
		gauge(c.caughtUp, metric.Truth(s.CaughtUp))
		gauge(c.lag, s.Lag.Seconds())
		gauge(c.failing, s.Failing.Seconds())
		gauge(c.pending, float64(s.Pending))
		gauge(c.objects, float64(s.Objects))
		gauge(c.heldDeletes, metric.Truth(s.HeldDeletes))
		gauge(c.heldEpoch, metric.Truth(s.HeldEpoch != 0))
		for reason, n := range s.Parked {
			gauge(c.parked, float64(n), string(reason))
		}
		for outcome, n := range s.Writes {
			to <- prometheus.MustNewConstMetric(c.writes, prometheus.CounterValue, float64(n), s.Name, outcome)
		}
	}
}
