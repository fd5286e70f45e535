// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// client makes no connection that outlives its answer: the next process may be another one.
var client = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// Get asks a bridge that serves at a host and port. The header may say what the bridge takes for the time.
func Get(ctx context.Context, server, path string) (code int, body string, header http.Header, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+server+path, nil)
	if err != nil {
		return 0, "", nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", nil, fmt.Errorf("ask the bridge: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // it is only read
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), resp.Header, err
}

// Metrics are values by series, as /metrics names them: name{label="value",…}.
type Metrics map[string]float64

// ReadMetrics reads what a bridge serves to Prometheus.
func ReadMetrics(text string) Metrics {
	m := Metrics{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || line[0] == '#' {
			continue
		}
		if value, err := strconv.ParseFloat(line[at+1:], 64); err == nil {
			m[line[:at]] = value
		}
	}
	return m
}

// Sum adds up the series of a metric of the bridge that have all these labels, each as name="value". The metric is
// named without kube_eventbridge_ before it. Series is how many there are.
func (m Metrics) Sum(name string, labels ...string) (sum float64, series int) {
	for key, value := range m {
		rest, ok := strings.CutPrefix(key, "kube_eventbridge_"+name)
		if ok && (rest == "" || rest[0] == '{') && hasAll(rest, labels) {
			sum += value
			series++
		}
	}
	return sum, series
}

func hasAll(text string, parts []string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
}
