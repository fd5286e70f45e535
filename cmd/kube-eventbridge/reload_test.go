// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/port"
	"github.com/kube-eventbridge/kube-eventbridge/internal/resync"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
)

// running is a process that runs in this one.
type running struct {
	t       *testing.T
	stderr  *output
	hangups chan os.Signal
	ended   chan int
	// listened: it asked for the hangups.
	listened atomic.Bool
}

// runs runs a command line until the test ends.
func runs(t *testing.T, args ...string) *running {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	p := &running{t: t, stderr: &output{}, hangups: make(chan os.Signal, 1), ended: make(chan int, 1)}
	listen := func() (<-chan os.Signal, func()) {
		p.listened.Store(true)
		return p.hangups, func() {}
	}
	go func() {
		p.ended <- execute(ctx, args, &streams{Out: io.Discard, Err: p.stderr, Hangups: listen})
	}()
	t.Cleanup(func() {
		stop()
		assert.Equal(t, exit.Done, <-p.ended, "exit code, %s", p.stderr.String())
	})
	return p
}

// says waits until the log has a text so many times.
func (p *running) says(text string, times int) {
	p.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for strings.Count(p.stderr.String(), text) < times {
		select {
		case <-tick.C:
		case code := <-p.ended:
			p.ended <- code
			p.t.Fatalf("it ended with %d: %s", code, p.stderr.String())
		case <-deadline:
			p.t.Fatalf("it does not say %q %d times: %s", text, times, p.stderr.String())
		}
	}
}

// A signal that comes while the file is read does not end the process.
func TestReload_is_listened_for_before_the_file_is_read(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bridge.yaml")
	listens, told := false, false
	listen := func() (<-chan os.Signal, func()) {
		_, err := os.Stat(file)
		listens, told = true, err == nil
		require.NoError(t, os.WriteFile(file, []byte("pipelines: 7\n"), 0o600)) // it is read, and refused, afterwards
		return nil, func() { listens = false }
	}
	var stderr output
	code := execute(t.Context(), []string{"run", "--config", file}, &streams{Out: io.Discard, Err: &stderr, Hangups: listen})
	assert.Equal(t, exit.Usage, code, stderr.String())
	assert.Contains(t, stderr.String(), "pipelines")
	assert.False(t, told || listens, "it listened when the file was there %v, and does so still %v", told, listens)
}

func TestRun_goes_by_its_file_when_that_changes(t *testing.T) {
	file := configured(t, apiServer(t, identified), "[{resource: pods}]")
	p := runs(t, "run", "--config", file)
	p.says("msg=publishing", 1)
	p.hangups <- syscall.SIGHUP
	p.says("configuration unchanged", 1)

	rewritten(t, file, "{resource: pods}", "{resource: pods, payload: metadata}")
	p.says(`msg="configuration applied"`, 1)
	p.says(`what is read changes" pipeline=a ends=[pods] begins=[pods] stay=0`, 1)
	rewritten(t, file, "format: text", "format: text, level: debug")
	p.says(`msg="configuration applied"`, 2)
	rewritten(t, file, "pipelines: [", "pipelines: [{name: b, resources: [{resource: pods}], sink: {stdout: {}}}, ")
	p.says(`added=[b]`, 1)
	p.says("msg=publishing", 2)
	rewritten(t, file, "sink: {stdout: {}}}]", "onReject: stop, sink: {stdout: {}}}]")
	p.says("restarted=[a]", 1)
	p.says("msg=publishing", 3)

	for _, c := range []struct{ from, to, want string }{
		{"payload: metadata", "payload: all", "is not a choice"},
		{"payload: all", "payload: metadata, namespaces: [a]", ""},
		{"resource: pods, payload", "resource: places, payload", "resource places is cluster-scoped"},
		{"dataDir: ", `cluster: x, dataDir: `, "cluster: cannot change while the process runs; restart the process"},
	} {
		rewritten(t, file, c.from, c.to)
		if c.want == "" {
			continue
		}
		p.says(c.want, 1)
		if got := readyz(t, p.stderr.String()); !strings.Contains(got, "\nconfiguration refused, the one of 20") || !strings.HasPrefix(got, "200 ok\n") {
			t.Errorf("readyz says %s", got)
		}
	}
	rewritten(t, file, "cluster: x, ", "")
	rewritten(t, file, "resource: places", "resource: pods")
	p.says("configuration applied", 5)
	assert.NotContains(t, readyz(t, p.stderr.String()), "refused", "readyz")
}

// The server of the process itself comes and goes with the pipelines that publish to it, and stays where it is.
func TestRun_begins_and_ends_its_own_server_as_its_file_says(t *testing.T) {
	testtier.Servers(t)
	file := configured(t, apiServer(t, identified), "[{resource: pods}]")
	at := fmt.Sprintf("127.0.0.1:%d", must.Get(port.Free())(t))
	listens := func() bool {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", at)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}
	p := runs(t, "run", "--config", file)
	p.says("msg=publishing", 1)
	embedded := fmt.Sprintf("pipelines: [{name: b, resources: [{resource: pods}], sink: {embedded: {listen: %q}}}, ", at)
	for round := range 2 {
		rewritten(t, file, "pipelines: [", embedded)
		p.hangups <- syscall.SIGHUP
		p.says("added=[b]", round+1)
		p.says("msg=publishing pipeline=b", round+1)
		assert.True(t, listens(), "the server is not there")
		if round == 0 {
			rewritten(t, file, at, "127.0.0.1:1")
			p.hangups <- syscall.SIGHUP
			p.says("has another listen or storeDir than the server that runs in this process", 1)
			rewritten(t, file, "127.0.0.1:1", at)
		}
		rewritten(t, file, embedded, "pipelines: [")
		p.hangups <- syscall.SIGHUP
		p.says("removed=[b]", round+1)
		assert.False(t, listens(), "the server is there still")
	}
}

// A terminal that closes ends the process, as it does without this program's doing.
func TestRun_without_a_file_leaves_SIGHUP_alone(t *testing.T) {
	api := apiServer(t, identified)
	p := runs(t, byArgs(t, api, t.TempDir())...)
	p.says("stream watches", 1)
	assert.False(t, p.listened.Load(), "it takes the signal")
}

// What is half written may be a valid file; what is exchanged may be gone for a moment.
func TestReloads_wait_until_a_file_has_settled(t *testing.T) {
	api := apiServer(t, func(http.ResponseWriter, *http.Request) {})
	file := configured(t, api, "[{resource: pods}]")
	p, first := assembled(t, file, &output{}), lookAt(file).data
	p.reloads = newReloads(p, file, first)
	gone, bad, good := glance{err: errors.New("it is gone")}, glance{data: []byte("{}")}, glance{data: []byte(strings.Replace(string(first), "resource: pods", "resource: nodes", 1))}
	for i, step := range []struct {
		now           glance
		asked         bool
		failed, taken bool
	}{
		{glance{data: first}, false, false, false},
		{gone, false, false, false},
		{glance{data: first}, false, false, false},
		{bad, false, false, false},
		{gone, false, false, false},
		{bad, false, false, false},
		{bad, false, true, false},
		{good, false, true, false},
		{good, false, false, true},
		{good, false, false, true},
		{bad, true, true, true},
		{glance{data: first}, true, false, false},
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
	file := configured(t, api, "[{resource: pods}]")
	p := assembled(t, file, &output{})
	p.reloads = newReloads(p, file, lookAt(file).data)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	rewritten(t, file, "resource: pods", "resource: nodes")
	seen := make(chan struct{})
	go func() {
		defer close(seen)
		p.reloads.see(ctx, lookAt(file), true)
	}()
	<-asked
	if !p.turn.TryLock() {
		t.Error("it holds the turn")
	} else {
		p.turn.Unlock()
	}
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
			file := configured(t, apiServer(t, identified), "[{resource: pods}]")
			p := assembled(t, file, &output{})
			rewritten(t, file, "resource: pods", "resource: nodes")
			cfg, _ := must.Get2(p.flags.parse(lookAt(file).data))(t)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			turned := make(chan error, 1)
			diff := p.current.Compare(cfg)
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
	api := apiServer(t, func(http.ResponseWriter, *http.Request) {})
	file := configured(t, api, "[{resource: pods}]")
	rewritten(t, file, "stdout: {}", "nats: {}")
	var logged output
	p, first := assembled(t, file, &logged), lookAt(file).data
	p.reloads = newReloads(p, file, first)
	rewritten(t, file, "nats: {}", "nats: {tokenFile: token}")
	for range 3 {
		p.reloads.tried = time.Time{}
		p.reloads.see(t.Context(), lookAt(file), false)
		p.reloads.see(t.Context(), lookAt(file), false)
	}
	if err := p.reloads.now().Err; err == nil || !strings.Contains(err.Error(), "no such file") || strings.Count(logged.String(), "level=ERROR") != 1 {
		t.Errorf("it was refused for %v: %s", err, &logged)
	}
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(file), "token"), []byte("t"), 0o600))
	p.reloads.tried = time.Time{}
	p.reloads.see(t.Context(), lookAt(file), false)
	err := p.reloads.now().Err
	assert.True(t, err == nil && p.current.Pipelines[0].Sink.NATS.TokenFile != "", "it is refused still: %v", err)
}

// A file may be a pipe, which has its text once, and then makes whoever opens it wait.
func TestRun_ends_where_its_file_is_a_pipe(t *testing.T) {
	file := configured(t, apiServer(t, identified), "[{resource: pods}]")
	text := must.Get(os.ReadFile(file))(t)
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(pipe, text, 0o600) }()
	p := runs(t, "run", "--config", pipe)
	p.says("msg=publishing", 1)
	require.NoError(t, <-written)
	select {
	case <-time.After(2 * glanceEvery): // it would have opened the pipe, and waited
	case code := <-p.ended:
		p.ended <- code
	}
	p.hangups <- syscall.SIGHUP
	p.says("there is no configuration file to be loaded again", 1)
}

func TestResync_tells_how_far_it_is_from_time_to_time_and_what_became_of_it_at_once(t *testing.T) {
	var out bytes.Buffer
	tell := resyncTeller{to: &out, told: map[string]string{}}
	at := time.Unix(1_764_000_000, 0)
	pods := resync.Stream{Pipeline: "p", Stream: "pods.v1", State: bridge.ResyncQueued, Objects: 900}
	nodes := resync.Stream{Pipeline: "p", Stream: "nodes.v1", State: bridge.ResyncRefused, Problem: "it is listing"}
	for second := range 8 {
		pods.Listed, pods.Published = second*200, second*199
		switch second {
		case 1:
			pods.State = bridge.ResyncRunning
		case 7:
			pods.State, pods.Published = bridge.ResyncDone, 1
		}
		tell.tell([]resync.Stream{pods, nodes, {Pipeline: "p", Stream: "*.example.com", State: bridge.ResyncEmpty}}, at.Add(time.Duration(second)*time.Second))
	}
	const want = `pipeline p: pods.v1: asked for
pipeline p: nodes.v1: refused: it is listing
pipeline p: *.example.com: nothing to do, it selects nothing now
pipeline p: pods.v1: 1000 of 1000 objects, 995 published again
pipeline p: pods.v1: done, 1 object published again
`
	assert.Equal(t, want, out.String(), "it says\n%s", &out)
}

func TestResync_ends_with_an_error_where_something_is_not_published_again(t *testing.T) {
	done, queued := resync.Stream{State: bridge.ResyncDone}, resync.Stream{State: bridge.ResyncQueued}
	for want, all := range map[string][]resync.Stream{
		"": {done, queued, {State: bridge.ResyncEmpty}},
		"1 of 2 streams not published again; ask for that when /readyz of the bridge answers ok": {done, {State: bridge.ResyncRefused}},
		"1 of 1 stream not published again; ask for that when /readyz of the bridge answers ok":  {{State: bridge.ResyncFailed}},
	} {
		got := ""
		if err := resyncProblem(all); err != nil {
			got = err.Error()
		}
		assert.Equal(t, want, got, "%+v", all)
	}
}
