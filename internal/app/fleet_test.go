// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/app/apptest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/status"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testlog"
)

// takenError is what a checkpoint says that a later writer has taken over.
type takenError struct{}

func (takenError) Error() string   { return "another process has it" }
func (takenError) Taken() bool     { return true }
func (takenError) Permanent() bool { return true }

// fencedStore has nothing, and takes nothing any more once fence says why.
type fencedStore struct{ fence atomic.Pointer[error] }

func (s *fencedStore) Load(context.Context) (*checkpoint.State, error) {
	return &checkpoint.State{}, nil
}

func (s *fencedStore) Commit(context.Context, *checkpoint.Batch) error {
	if err := s.fence.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *fencedStore) Close() error { return nil }

// fenced gives a member a store that can be fenced, in the place of its own.
func fenced(t *testing.T, m *member) *fencedStore {
	t.Helper()
	require.NoError(t, m.store.Close())
	store := &fencedStore{}
	m.store, m.cfg.Store = store, store
	return store
}

// output may be written to and read at the same time.
type output = testlog.Text

// assembled is a process that goes by a file.
func assembled(t *testing.T, file string, log *output) *process {
	t.Helper()
	p := &process{
		builder: builder{out: io.Discard, log: newLogger(log, config.Log{Format: config.FormatText}, slog.LevelInfo)},
		report:  report{file: file},
		level:   &slog.LevelVar{}, registry: prometheus.NewRegistry(),
		parse: func(data []byte) (*config.Config, config.Problems, error) { return config.LoadRead(file, data) },
	}
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	p.current, _ = must.Get2(p.parse(data))(t)
	p.cfg, p.metrics = p.current, health.NewMetrics(p.registry)
	require.NoError(t, p.reach())
	asking, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- p.catalog.Run(asking) }()
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-ended)
		p.client.CloseIdleConnections()
	})
	return p
}

func TestFleet_ends_where_another_process_has_taken_over_a_pipeline_that_a_configuration_ends(t *testing.T) {
	refused := func(err error) *error { return &err }
	for name, c := range map[string]struct {
		err       *error
		from, to  string
		wantTaken bool
	}{
		"left out":              {refused(takenError{}), "name: a,", "name: b,", true},
		"restarted":             {refused(takenError{}), "sink:", "onReject: stop, sink:", true},
		"broken in another way": {refused(&permanentError{errors.New("damaged")}), "name: a,", "name: b,", false},
	} {
		t.Run(name, func(t *testing.T) {
			var log output
			file := apptest.Configured(t, apptest.APIServer(t, apptest.Identified), "[{resource: pods}]")
			p := assembled(t, file, &log)
			f := must.Get(p.newFleet("uid", p.current, nil))(t)
			store := fenced(t, f.members[0])
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			ended := make(chan error, 1)
			go func() { ended <- f.run(ctx) }()
			must.Happen(t, "it is logged", func() bool { return strings.Contains(log.String(), "stream watches") })
			apptest.Rewrite(t, file, c.from, c.to)
			next := must.Get(os.ReadFile(file))(t)
			cfg, _ := must.Get2(p.parse(next))(t)
			store.fence.Store(c.err)
			over, err := f.order(ctx, cfg, compare(p.current, cfg))
			require.True(t, !over && err == nil, "it has ended: %v; refused: %v", over, err)
			if !c.wantTaken {
				must.Happen(t, "it is logged", func() bool { return strings.Count(log.String(), "stream watches") == 2 })
				stop()
			}
			err = <-ended
			assert.Equal(t, c.wantTaken, checkpoint.IsTaken(err), "it ended with %v", err)
			assert.NotEqual(t, c.wantTaken, strings.Contains(log.String(), "in a bad way"), "the error is logged")
			got := strings.Count(log.String(), "msg=publishing")
			assert.True(t, !c.wantTaken || got == 1, "%d pipelines have begun: %s", got, log.String())
		})
	}
}

// takenOver is a process of two pipelines, of which next ends the second, and has the first one read something else.
func takenOver(t *testing.T, log *output) (p *process, next *config.Config) {
	t.Helper()
	file := apptest.Configured(t, apptest.APIServer(t, apptest.Identified), "[{resource: pods}]")
	apptest.Rewrite(t, file, "pipelines: [",
		"pipelines: [{name: stays, resources: [{resource: pods}], sink: {stdout: {}}}, ")
	p = assembled(t, file, log)
	apptest.Rewrite(t, file, "name: stays, resources: [{resource: pods}]",
		"name: stays, resources: [{resource: pods, payload: metadata}]")
	apptest.Rewrite(t, file, "name: a,", "name: b,")
	next, _ = must.Get2(p.parse(lookAt(file).data))(t)
	return p, next
}

func TestFleet_has_nothing_read_something_else_where_another_process_has_taken_over(t *testing.T) {
	var log output
	p, next := takenOver(t, &log)
	f := must.Get(p.newFleet("uid", p.current, nil))(t)
	store, refusal := fenced(t, f.members[1]), error(takenError{})
	ctx := must.Within(t, time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- f.run(ctx) }()
	must.Happen(t, "it is logged", func() bool { return strings.Count(log.String(), "stream watches") == 2 })
	store.fence.Store(&refusal)
	over, err := f.order(ctx, next, compare(p.current, next))
	require.True(t, !over && err == nil, "it has ended: %v; refused: %v", over, err)
	err = <-ended
	assert.True(t, checkpoint.IsTaken(err), "it ended with %v", err)
	assert.NotContains(t, log.String(), "what is read changes", "something else is read")
}

// An order may wait already; what the one before has ended by then could not take it.
func TestFleet_takes_no_order_after_another_process_has_taken_over(t *testing.T) {
	p, next := takenOver(t, &output{})
	for range 10 { // which of two that are ready is first is a matter of chance
		f := must.Get(p.newFleet("uid", p.current, &bridge.Term{Number: 1, Held: t.Context()}))(t)
		ended := make(chan struct{})
		f.members[0].pipeline = bridge.New(f.members[0].cfg)
		f.members[1].stop, f.members[1].done, f.members[1].err = func() { close(ended) }, ended, takenError{}
		f.orders = make(chan *order, 2)
		f.orders <- &order{cfg: next, diff: compare(p.current, next), refused: make(chan error, 1)}
		f.orders <- &order{cfg: p.current, diff: compare(next, p.current), refused: make(chan error, 1)}
		if err := f.obey(t.Context(), t.Context()); !checkpoint.IsTaken(err) || len(f.orders) != 1 {
			t.Errorf("it ended with %v, and %d orders wait", err, len(f.orders))
		}
		require.NoError(t, closeStores(f.members))
	}
}

// What is left out is not shown any more, nor is what has been counted of it.
func TestFleet_shows_only_what_runs(t *testing.T) {
	var log output
	file := apptest.Configured(t, apptest.APIServer(t, apptest.Identified), "[{resource: pods}]")
	p := assembled(t, file, &log)
	f := must.Get(p.newFleet("uid", p.current, nil))(t)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- f.run(ctx) }()
	must.Happen(t, "it is logged", func() bool { return strings.Contains(log.String(), "stream watches") })
	apptest.Rewrite(t, file, "name: a,", "name: b,")
	cfg, _ := must.Get2(p.parse(lookAt(file).data))(t)
	over, err := f.order(ctx, cfg, compare(p.current, cfg))
	require.True(t, !over && err == nil, "it has ended: %v; refused: %v", over, err)
	must.Happen(t, "it is logged", func() bool { return strings.Count(log.String(), "stream watches") == 2 })
	all := must.Get(p.registry.Gather())(t)
	of := map[string]int{}
	for _, family := range all {
		for _, one := range family.GetMetric() {
			for _, l := range one.GetLabel() {
				if l.GetName() == "pipeline" {
					of[l.GetValue()]++
				}
			}
		}
	}
	require.Len(t, of, 1, "there are series")
	assert.GreaterOrEqual(t, of["b"], 20, "there are series")
	report := httptest.NewRecorder()
	status.Handler(p.statusConfig()).ServeHTTP(report,
		httptest.NewRequestWithContext(ctx, http.MethodGet, status.Path, nil))
	if text := report.Body.String(); strings.Contains(text, `"name":"a"`) || !strings.Contains(text, `"name":"b"`) {
		t.Errorf("the status is %s", text)
	}
	stop()
	assert.NoError(t, <-ended)
}
