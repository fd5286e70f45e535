// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/remote"
)

// A process that replicates goes on as it began, and says that its file has changed.
func TestReloads_say_that_changed_replicas_need_a_restart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "replica.yaml")
	text := func(namespace, level, payload string) []byte {
		return fmt.Appendf(nil, `
cluster: west
kubernetes: {kubeconfig: /none}
log: {level: %s}
pipelines: [{name: p, resources: [{resource: pods, payload: %s}], sink: {stdout: {}}}]
replicas:
  - name: shop
    from: {cluster: east, pipeline: audit, nats: {servers: ["nats://b:4222"]}}
    resources: [{resource: configmaps, namespaces: [%s]}]
`, level, payload, namespace)
	}
	var logged output
	log, at := newLogger(&logged, config.Log{Format: config.FormatText}, slog.LevelInfo), &slog.LevelVar{}
	parse := func(data []byte) (*config.Config, config.Problems, error) { return config.LoadRead(file, data) }
	first := text("shop", "info", "object")
	cfg, _ := must.Get2(parse(first))(t)
	p := &replicator{cfg: cfg}
	r := (&reloads{parse: parse, adopt: p.adopt(file, at), log: log}).of(file, first, prometheus.NewRegistry())
	p.note = func() string { return r.now().note() }

	r.see(t.Context(), fileState{data: text("shop", "debug", "metadata")}, true)
	assert.Empty(t, p.note(), "pipelines are another process's")
	assert.Equal(t, slog.LevelDebug, at.Level())
	r.see(t.Context(), fileState{data: text("mail", "debug", "metadata")}, true)
	assert.Contains(t, p.note(), "restart the process to change it")
	assert.Contains(t, p.note(), "replicas")
	assert.Contains(t, logged.String(), "configuration refused; the one before stays")
	answer := httptest.NewRecorder()
	p.ready(answer, nil)
	assert.Equal(t, "ok\n"+p.note()+"\n", answer.Body.String())
	answer = httptest.NewRecorder()
	mux := http.NewServeMux()
	p.serveReplicas(mux, func(h http.Handler) http.Handler { return h })
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, remote.Path, nil))
	assert.Contains(t, answer.Body.String(), `"config":"configuration refused`)
	r.see(t.Context(), fileState{data: text("shop", "debug", "metadata")}, true)
	assert.Empty(t, p.note())
}
