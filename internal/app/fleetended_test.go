// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/status"
	"github.com/kube-eventbridge/kube-eventbridge/internal/wiring"
)

// told returns what a process answers at a path.
func told(t *testing.T, p *process, path string) (code int, body string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(status.Path, status.Handler(p.statusConfig()))
	mux.Handle("/", bridge.Handler(p.registry, p.running, p.idle))
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return answer.Code, answer.Body.String()
}

func TestFleet_goes_on_without_a_pipeline_that_has_to_end_and_tries_it_again(t *testing.T) {
	var log output
	p, _ := takenOver(t, &log)
	f := must.Get(p.newFleet("uid", p.current, nil))(t)
	f.retryDelay, f.maxRetryDelay = 5*time.Second, 5*time.Second
	store, damaged := fenced(t, f.members[1]), error(&permanentError{errors.New("the checkpoint is damaged")})
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- f.run(ctx) }()
	must.Happen(t, "both watch", func() bool { return strings.Count(log.String(), "stream watches") == 2 })

	store.fence.Store(&damaged)
	must.Happen(t, "one is not ready", func() bool {
		code, body := told(t, p, "/readyz")
		return code == http.StatusServiceUnavailable &&
			body == "pipeline a: it has ended, and is tried again: the checkpoint is damaged\n"
	})
	_, metrics := told(t, p, "/metrics")
	assert.Contains(t, metrics, `kube_eventbridge_pipeline_ended{pipeline="a"} 1`)
	assert.Contains(t, metrics, `kube_eventbridge_pipeline_ended{pipeline="stays"} 0`)
	assert.NotContains(t, metrics, `kube_eventbridge_broker_ready{pipeline="a"}`)
	_, report := told(t, p, status.Path)
	assert.Contains(t, report, `"kind":"pipelineEnded","title":"A pipeline has ended","pipeline":"a"`)
	resyncs := must.Get(bridge.StartResyncs(p.running(), "", nil))(t)
	require.Len(t, resyncs, 2)
	assert.Equal(t, bridge.ResyncQueued, resyncs[0].State)
	assert.Equal(t, bridge.ResyncRefused, resyncs[1].State)

	must.Happen(t, "it is tried again", func() bool { // with the checkpoint that the file names
		code, _ := told(t, p, "/readyz")
		return code == http.StatusOK
	})
	_, metrics = told(t, p, "/metrics")
	assert.Equal(t, 1, strings.Count(metrics, `kube_eventbridge_pipeline_ended{pipeline="a"}`))
	assert.Contains(t, metrics, `kube_eventbridge_pipeline_ended{pipeline="a"} 0`)
	assert.Equal(t, 3, strings.Count(log.String(), "msg=publishing"), "the other one began again: %s", log.String())
	stop()
	assert.NoError(t, <-ended)
}

func TestFleet_ends_when_all_pipelines_have_ended(t *testing.T) {
	var log output
	p, _ := takenOver(t, &log)
	f := must.Get(p.newFleet("uid", p.current, nil))(t)
	ended := make(chan error, 1)
	stores := []*fencedStore{fenced(t, f.members[0]), fenced(t, f.members[1])}
	ctx := must.Within(t, time.Minute)
	go func() { ended <- f.run(ctx) }()
	must.Happen(t, "both watch", func() bool { return strings.Count(log.String(), "stream watches") == 2 })
	for i, why := range []string{"first", "second"} {
		err := error(&permanentError{errors.New(why)})
		stores[i].fence.Store(&err)
	}
	err := <-ended
	assert.ErrorContains(t, err, "first")
	assert.ErrorContains(t, err, "second")
}

func TestFleet_begins_although_a_checkpoint_cannot_be_opened(t *testing.T) {
	var log output
	p, _ := takenOver(t, &log)
	held := must.Get(p.newFleet("uid", p.current, nil))(t)
	_, err := p.newFleet("uid", p.current, nil)
	require.Error(t, err, "none can be opened")

	require.NoError(t, held.members[0].store.Close())
	f := must.Get(p.newFleet("uid", p.current, nil))(t)
	f.retryDelay, f.maxRetryDelay = time.Second, time.Second
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- f.run(ctx) }()
	must.Happen(t, "one watches, and the other is not ready", func() bool {
		_, body := told(t, p, "/readyz")
		return strings.Count(log.String(), "stream watches") == 1 && strings.HasPrefix(body, "pipeline a: it has ended")
	})
	require.NoError(t, held.members[1].store.Close())
	must.Happen(t, "both are ready", func() bool {
		code, _ := told(t, p, "/readyz")
		return code == http.StatusOK
	})
	stop()
	assert.NoError(t, <-ended)
}

func TestFleet_ends_where_another_process_leads(t *testing.T) {
	var log output
	p, _ := takenOver(t, &log)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	f := must.Get(p.newFleet("uid", p.current, &bridge.Term{Number: 1, Held: ctx}))(t)
	store, taken := fenced(t, f.members[1]), error(takenError{})
	ended := make(chan error, 1)
	go func() { ended <- f.run(ctx) }()
	must.Happen(t, "both watch", func() bool { return strings.Count(log.String(), "stream watches") == 2 })
	store.fence.Store(&taken)
	err := <-ended
	assert.True(t, checkpoint.IsTaken(err), "it ended with %v", err)
}

// Whoever cures the checkpoint may have to open it.
func TestFleet_gives_the_checkpoint_of_a_pipeline_that_has_ended_back(t *testing.T) {
	var log output
	p, _ := takenOver(t, &log)
	f := must.Get(p.newFleet("uid", p.current, nil))(t)
	own, damaged := f.members[1].store, error(&permanentError{errors.New("damaged")})
	broken := &brokenStore{Store: own, err: damaged}
	f.members[1].store, f.members[1].cfg.Store = broken, broken
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- f.run(ctx) }()
	must.Happen(t, "one has ended", func() bool { return strings.Contains(log.String(), "a pipeline has ended") })
	must.Succeed(t, "the checkpoint to be free", func() error {
		store, err := p.store(p.current, 1, f.members[1].cfg.Identity)
		if err == nil {
			err = store.Close()
		}
		return err
	})
	stop()
	assert.NoError(t, <-ended)
}

// permanentError is one that no waiting cures.
type permanentError struct{ error }

// Permanent implements what [checkpoint.IsPermanent] asks for.
func (*permanentError) Permanent() bool { return true }

// brokenStore is a checkpoint that cannot be read.
type brokenStore struct {
	wiring.Store
	err error
}

func (s *brokenStore) Load(context.Context) (*checkpoint.State, error) { return nil, s.err }
