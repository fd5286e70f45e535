// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/waiting"
)

// statusServer is an API server that takes every object, and answers to a write of a status with a code.
func statusServer(t *testing.T, code func() int) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var object map[string]any
		body, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(body, &object) != nil {
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

func TestStatus_says_why_a_replica_does_not_run(t *testing.T) {
	p := New(Config{Name: "r", State: &memory{}, OpenLog: func(bool) (Log, error) { return nil, errors.New("no such file") }})
	s, running := p.Status()
	assert.False(t, running)
	assert.Empty(t, s.Texts())
	p.setStopped(Failures{Starting: errors.New("connection refused")})
	s, running = p.Status()
	assert.False(t, running)
	require.Equal(t, map[string]string{"target": "connection refused"}, s.Texts())
	p.setStopped(Failures{})
	require.Error(t, p.Run(t.Context()))
	s, running = p.Status()
	assert.False(t, running)
	require.Equal(t, map[string]string{"replica": "no such file"}, s.Texts())
}

// A log that does not answer tells of no events: what the replica is behind then is not known, but bounded.
func TestStatus_counts_the_time_in_which_the_log_does_not_answer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil)
		p := New(*g.cfg)
		p.set(g.run)
		lag := func() time.Duration {
			s, _ := p.Status()
			return s.Lag.Round(time.Minute)
		}
		g.began = time.Now().Add(-time.Hour)
		assert.Equal(t, time.Hour, lag(), "it was not read yet")
		close(g.begun)
		assert.Zero(t, lag())
		g.health.Set(partLog, errors.New("away"))
		time.Sleep(5 * time.Minute) //nolint:forbidigo // it is the time of a bubble
		g.health.Set(partLog, errors.New("away"))
		assert.Equal(t, 5*time.Minute, lag())
		g.health.Set(partLog, nil)
		assert.Zero(t, lag())
	})
}

// A broker that is away when the replica starts is told as one that goes away later.
func TestStatus_says_that_a_log_which_is_not_read_to_its_end_tells_nothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil)
		p := New(*g.cfg)
		p.set(g.run)
		problems := func() map[string]string {
			s, _ := p.Status()
			return s.Texts()
		}
		time.Sleep(longQuiet) //nolint:forbidigo // it is the time of a bubble
		assert.Empty(t, problems())
		time.Sleep(time.Second) //nolint:forbidigo // it is the time of a bubble
		assert.Equal(t, "it has told nothing for 11s: does the broker of from answer?", problems()["log"])
		g.heard.Store(time.Now().UnixNano())
		assert.Empty(t, problems(), "it tells something")
		time.Sleep(time.Minute) //nolint:forbidigo // it is the time of a bubble
		close(g.begun)
		assert.Empty(t, problems(), "it was read up to its end")
	})
}

func TestWaiting_names_some_of_each_reason(t *testing.T) {
	g := newRig(t, nil)
	p := New(*g.cfg)
	p.set(g.run)
	for i, name := range []string{"c", "b", "a", "d"} {
		g.tell(is(name, at(1, 10)))
		_, id, _ := g.table.Find(keys.Key{Namespace: "shop", Name: name})
		g.parked.Put(id, waiting.Exists, "", time.Now().Add(time.Duration(i)*time.Second))
	}
	_, id, _ := g.table.Find(keys.Key{Namespace: "shop", Name: "d"})
	g.parked.Put(id, waiting.Contested, "", time.Now())
	var names []string
	for _, w := range p.Waiting(2) {
		names = append(names, string(w.Reason)+" "+w.Name)
	}
	assert.Equal(t, []string{"contested d", "exists b", "exists c"}, names, "those that wait for longest")
}

// A replica that finds nothing looks like one that has nothing to do.
func TestCatchUp_warns_if_the_log_has_no_object(t *testing.T) {
	for _, told := range []int{0, 1} {
		var logged strings.Builder
		g := newRig(t, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&logged, nil)) })
		if told > 0 {
			g.tell(is("a", at(1, 10)))
		}
		g.catchUp(t.Context())
		assert.Equal(t, 1-told, strings.Count(logged.String(), "level=WARN"), logged.String())
	}
}
