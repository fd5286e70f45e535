// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
)

// statusServer is an API server that takes every object, and answers to a write of a status with a code.
func statusServer(t *testing.T, code func() int) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var object map[string]any
		body := must.Get(io.ReadAll(r.Body))(t)
		if json.Unmarshal(body, &object) != nil {
			object = map[string]any{"metadata": map[string]any{}}
		}
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/status") && code() != http.StatusOK {
			w.WriteHeader(code())
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable"}`)
			return
		}
		metadata, _ := object["metadata"].(map[string]any)
		metadata["uid"], metadata["resourceVersion"] = uidOf("b"), "7"
		_ = json.NewEncoder(w).Encode(object) // who asked has gone
	}))
	t.Cleanup(s.Close)
	return s
}

func TestStatus_is_tried_again_until_it_is_written(t *testing.T) {
	code := http.StatusServiceUnavailable
	s := statusServer(t, func() int { return code })
	g := newRig(t, func(c *Config) {
		c.Target = &rest.Config{Host: s.URL}
		c.Entries[0].Rules = must.Get(clean.New(clean.Config{Replica: "r", Selected: []string{"shop"}, Status: true}))(t)
	})
	e := is("a", at(1, 10))
	e.Data = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"a"},"status":{"ready":true}}`
	g.tell(e)
	g.synced()
	_, id, _ := g.table.Find(keys.Key{Namespace: "shop", Name: "a"})
	assert.Equal(t, later, g.reconcile(t.Context(), id))
	assert.False(t, g.row("a").Accepted, "the status is not there")
	code = http.StatusOK
	assert.NotEqual(t, later, g.reconcile(t.Context(), id))
}

func TestStatus_says_why_a_replica_does_not_run_yet(t *testing.T) {
	p := New(Config{Name: "r", State: &memory{}})
	s, running := p.Status()
	assert.False(t, running)
	assert.Empty(t, s.Problems)
	p.setIdle(errors.New("connection refused"))
	s, running = p.Status()
	assert.False(t, running)
	require.Equal(t, map[string]string{"start": "connection refused"}, s.Problems)
}
