// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/metrics"
)

// clientMetrics count the requests to the API server under the names that all programs with client-go use.
type clientMetrics struct {
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
}

// registerClientMetrics makes client-go report to reg. Client-go takes only the first of a process.
func registerClientMetrics(reg prometheus.Registerer) {
	m := &clientMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rest_client_requests_total", Help: "Number of HTTP requests, partitioned by status code, method, and host.",
		}, []string{"code", "method", "host"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rest_client_request_duration_seconds", Help: "Time until the API server has answered with its headers.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 12),
		}, []string{"verb", "host"}),
	}
	reg.MustRegister(m.requests, m.latency)
	metrics.Register(metrics.RegisterOpts{RequestResult: m, RequestLatency: m})
}

// Increment implements metrics.ResultMetric.
func (m *clientMetrics) Increment(_ context.Context, code, method, host string) {
	m.requests.WithLabelValues(code, method, host).Inc()
}

// Observe implements metrics.LatencyMetric.
func (m *clientMetrics) Observe(_ context.Context, verb string, u url.URL, latency time.Duration) {
	m.latency.WithLabelValues(verb, u.Host).Observe(latency.Seconds())
}
