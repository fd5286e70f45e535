// SPDX-License-Identifier: Apache-2.0

// Package kubemetrics counts the requests of client-go.
package kubemetrics

import (
	"context"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/metrics"

	"github.com/kube-eventbridge/kube-eventbridge/internal/metric"
)

// clientMetrics count the requests to the API server under the names that all programs with client-go use.
type clientMetrics struct {
	requests, retries *prometheus.CounterVec
	latency           *prometheus.HistogramVec
}

// Register makes client-go report to reg. Client-go takes only the first of a process.
func Register(reg prometheus.Registerer) {
	m := &clientMetrics{
		requests: metric.NewCounter("rest_client_requests_total"),
		retries:  metric.NewCounter("rest_client_request_retries_total"),
		latency:  metric.NewHistogram("rest_client_request_duration_seconds", prometheus.ExponentialBuckets(0.005, 2, 12)),
	}
	reg.MustRegister(m.requests, m.retries, m.latency)
	metrics.Register(metrics.RegisterOpts{RequestResult: m, RequestLatency: m, RequestRetry: retries{m.retries}})
}

// Increment implements metrics.ResultMetric.
func (m *clientMetrics) Increment(_ context.Context, code, method, host string) {
	m.requests.WithLabelValues(code, host, method).Inc()
}

// retries count apart, as their method has the same name.
type retries struct{ *prometheus.CounterVec }

// IncrementRetry implements metrics.RetryMetric.
func (r retries) IncrementRetry(_ context.Context, code, verb, host string) {
	r.WithLabelValues(code, host, verb).Inc()
}

// Observe implements metrics.LatencyMetric.
func (m *clientMetrics) Observe(_ context.Context, verb string, u url.URL, latency time.Duration) {
	m.latency.WithLabelValues(u.Host, verb).Observe(latency.Seconds())
}
