// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
)

func TestProfiles_are_served_only_if_asked_for(t *testing.T) {
	for asked, want := range map[bool]int{false: http.StatusNotFound, true: http.StatusOK} {
		p := &process{cfg: &config.Config{Server: config.Server{Listen: "127.0.0.1:8080", Profiling: asked}}, registry: prometheus.NewRegistry()}
		handler := p.handler()
		for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/symbol"} {
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
			assert.Equal(t, want, answer.Code, "profiling: %v: %s answers", asked, path)
		}
	}
}
