// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica"
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

// A replica that has to end is tried again while others, or pipelines, go on. If none goes on, the process ends.
func TestReplicator_tries_again(t *testing.T) {
	// broken returns a replica that cannot read its log, and counts how often it tries.
	broken := func(tried *int) *replica.Replica {
		return replica.New(replica.Config{Name: "broken", OpenLog: func(bool) (replica.Log, error) {
			*tried++
			return nil, errors.New("no such file")
		}})
	}
	for name, tc := range map[string]struct{ another, hasPipelines bool }{
		"beside another replica": {another: true},
		"beside pipelines":       {hasPipelines: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				tried := 0
				p := &replicator{log: slog.New(slog.DiscardHandler), replicas: []*replica.Replica{broken(&tried)}}
				p.hasPipelines = tc.hasPipelines
				if tc.another {
					p.replicas = append(p.replicas, replica.New(replica.Config{OpenLog: func(bool) (replica.Log, error) {
						<-ctx.Done()
						return nil, ctx.Err()
					}}))
				}
				over := make(chan error, 1)
				go func() { over <- p.replicate(ctx) }()
				time.Sleep(retryDelay) //nolint:forbidigo // it is the time of a bubble
				synctest.Wait()
				assert.Equal(t, 2, tried, "after the first delay")
				time.Sleep(24 * time.Hour) //nolint:forbidigo // it is the time of a bubble
				synctest.Wait()
				assert.InDelta(t, 24*4+6, tried, 60, "every quarter of an hour at most, and not seldom")
				assert.Empty(t, over)
				stop()
				assert.NoError(t, <-over)
			})
		})
	}
	t.Run("alone", func(t *testing.T) {
		p := &replicator{
			log:      slog.New(slog.DiscardHandler),
			replicas: []*replica.Replica{broken(new(int)), broken(new(int))},
		}
		assert.ErrorContains(t, p.replicate(t.Context()), "no such file\nno such file")
	})
}
