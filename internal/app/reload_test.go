// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/app/apptest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// What is half written may be a valid file; what is exchanged may be gone for a moment.
func TestReloads_wait_until_a_file_has_settled(t *testing.T) {
	api := apptest.APIServer(t, func(http.ResponseWriter, *http.Request) {})
	file := apptest.Configured(t, api, "[{resource: pods}]")
	p, first := assembled(t, file, &output{}), lookAt(file).data
	p.reloads = newReloads(p, file, first)
	gone, bad, good := fileState{err: errors.New("it is gone")}, fileState{data: []byte("{}")},
		fileState{data: []byte(strings.Replace(string(first), "resource: pods", "resource: nodes", 1))}
	for i, step := range []struct {
		now           fileState
		asked         bool
		failed, taken bool
	}{
		{fileState{data: first}, false, false, false},
		{gone, false, false, false},
		{fileState{data: first}, false, false, false},
		{bad, false, false, false},
		{gone, false, false, false},
		{bad, false, false, false},
		{bad, false, true, false},
		{good, false, true, false},
		{good, false, false, true},
		{good, false, false, true},
		{bad, true, true, true},
		{fileState{data: first}, true, false, false},
	} {
		p.reloads.see(t.Context(), step.now, step.asked)
		taken := p.current.Pipelines[0].Resources[0].Resource.Plural == "nodes"
		if failed := p.reloads.now().Err != nil; failed != step.failed || taken != step.taken {
			t.Errorf("step %d: refused %v, taken %v: %v", i, failed, taken, p.reloads.now().Err)
		}
	}
}

// A stop, a takeover and the streams need not wait for what a changed file has to be asked about.
func TestReloads_hold_up_nothing_while_the_API_server_is_silent(t *testing.T) {
	asked := make(chan struct{}, 100)
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer api.Close()
	file := apptest.Configured(t, api, "[{resource: pods}]")
	p := assembled(t, file, &output{})
	p.reloads = newReloads(p, file, lookAt(file).data)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	apptest.Rewrite(t, file, "resource: pods", "resource: nodes")
	seen := make(chan struct{})
	go func() {
		defer close(seen)
		p.reloads.see(ctx, lookAt(file), true)
	}()
	<-asked
	must.Happen(t, "a turn that is not held while it asks", p.turn.TryLock)
	p.turn.Unlock()
	reset := make(chan struct{})
	go func() {
		defer close(reset)
		p.catalog.Now()
	}()
	select {
	case <-reset:
	case <-time.After(time.Minute):
		t.Error("it holds what the streams ask")
	}
	stop()
	select {
	case <-seen:
	case <-time.After(time.Minute):
		t.Error("it goes on after a stop")
	}
	<-reset
	<-seen
	assert.Equal(t, "pods", p.current.Pipelines[0].Resources[0].Resource.Plural,
		"a process that stops goes by the file")
}

// A process that ends while a reload waits for its turn has nothing that the file could be for.
func TestTurnTo_leaves_all_as_it_is_where_the_process_has_ended_meanwhile(t *testing.T) {
	for name, ends := range map[string]bool{"it has ended": true, "it runs": false} {
		t.Run(name, func(t *testing.T) {
			file := apptest.Configured(t, apptest.APIServer(t, apptest.Identified), "[{resource: pods}]")
			p := assembled(t, file, &output{})
			apptest.Rewrite(t, file, "resource: pods", "resource: nodes")
			cfg, _ := must.Get2(p.parse(lookAt(file).data))(t)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			turned := make(chan error, 1)
			diff := compare(p.current, cfg)
			p.turn.Lock()
			go func() { turned <- p.turnTo(ctx, cfg, diff) }()
			if ends {
				stop()
			}
			p.turn.Unlock()
			if err := <-turned; errors.Is(err, context.Canceled) != ends || (p.current == cfg) == ends {
				t.Errorf("it goes by the file: %v, %v", p.current == cfg, err)
			}
		})
	}
}

// What a file names may come later; that is not told each time.
func TestReloads_try_again_what_was_refused(t *testing.T) {
	api := apptest.APIServer(t, func(http.ResponseWriter, *http.Request) {})
	file := apptest.Configured(t, api, "[{resource: pods}]")
	apptest.Rewrite(t, file, "stdout: {}", "nats: {}")
	var logged output
	p, first := assembled(t, file, &logged), lookAt(file).data
	p.reloads = newReloads(p, file, first)
	apptest.Rewrite(t, file, "nats: {}", "nats: {tokenFile: token}")
	for range 3 {
		p.reloads.tried = time.Time{}
		p.reloads.see(t.Context(), lookAt(file), false)
		p.reloads.see(t.Context(), lookAt(file), false)
	}
	if err := p.reloads.now().Err; err == nil || !strings.Contains(err.Error(), "no such file") ||
		strings.Count(logged.String(), "level=ERROR") != 1 {
		t.Errorf("it was refused for %v: %s", err, &logged)
	}
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(file), "token"), []byte("t"), 0o600))
	p.reloads.tried = time.Time{}
	p.reloads.see(t.Context(), lookAt(file), false)
	err := p.reloads.now().Err
	assert.True(t, err == nil && p.current.Pipelines[0].Sink.NATS.TokenFile != "", "it is refused still: %v", err)
}
