// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/app/apptest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/cli/cmdutil"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
	"github.com/kube-eventbridge/kube-eventbridge/internal/inert"
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
		p.ended <- execute(ctx, args, &cmdutil.Streams{Out: io.Discard, Err: p.stderr, Hangups: listen})
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
	code := execute(t.Context(), []string{"run", "--config", file},
		&cmdutil.Streams{Out: io.Discard, Err: &stderr, Hangups: listen})
	assert.Equal(t, exit.Usage, code, stderr.String())
	assert.Contains(t, stderr.String(), "pipelines")
	assert.False(t, told || listens, "it listened when the file was there %v, and does so still %v", told, listens)
}

func TestRun_goes_by_its_file_when_that_changes(t *testing.T) {
	file := apptest.Configured(t, apptest.APIServer(t, apptest.Identified), "[{resource: pods}]")
	p := runs(t, "run", "--config", file)
	p.says("msg=publishing", 1)
	p.hangups <- syscall.SIGHUP
	p.says("configuration unchanged", 1)

	apptest.Rewrite(t, file, "{resource: pods}", "{resource: pods, payload: metadata}")
	p.says(`msg="configuration applied"`, 1)
	p.says(`what is read changes" pipeline=a ends=[pods] begins=[pods] stay=0`, 1)
	apptest.Rewrite(t, file, "format: text", "format: text, level: debug")
	p.says(`msg="configuration applied"`, 2)
	apptest.Rewrite(t, file, "pipelines: [", "pipelines: [{name: b, resources: [{resource: pods}], sink: {stdout: {}}}, ")
	p.says(`added=[b]`, 1)
	p.says("msg=publishing", 2)
	apptest.Rewrite(t, file, "sink: {stdout: {}}}]", "onReject: stop, sink: {stdout: {}}}]")
	p.says("restarted=[a]", 1)
	p.says("msg=publishing", 3)

	for _, c := range []struct{ from, to, want string }{
		{"payload: metadata", "payload: all", "is not a choice"},
		{"payload: all", "payload: metadata, namespaces: [a]", ""},
		{"resource: pods, payload", "resource: places, payload", "resource places is cluster-scoped"},
		{"dataDir: ", `cluster: x, dataDir: `, "cluster: cannot change while the process runs; restart the process"},
	} {
		apptest.Rewrite(t, file, c.from, c.to)
		if c.want == "" {
			continue
		}
		p.says(c.want, 1)
		if got := readyz(t, p.stderr.String()); !strings.Contains(got, "\nconfiguration refused, the one of 20") ||
			!strings.HasPrefix(got, "200 ok\n") {
			t.Errorf("readyz says %s", got)
		}
	}
	apptest.Rewrite(t, file, "cluster: x, ", "")
	apptest.Rewrite(t, file, "resource: places", "resource: pods")
	p.says("configuration applied", 5)
	assert.NotContains(t, readyz(t, p.stderr.String()), "refused", "readyz")
}

// The server of the process itself comes and goes with the pipelines that publish to it, and stays where it is.
func TestRun_begins_and_ends_its_own_server_as_its_file_says(t *testing.T) {
	testtier.Servers(t)
	file := apptest.Configured(t, apptest.APIServer(t, apptest.Identified), "[{resource: pods}]")
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
		apptest.Rewrite(t, file, "pipelines: [", embedded)
		p.hangups <- syscall.SIGHUP
		p.says("added=[b]", round+1)
		p.says("msg=publishing pipeline=b", round+1)
		assert.True(t, listens(), "the server is not there")
		if round == 0 {
			apptest.Rewrite(t, file, at, "127.0.0.1:1")
			p.hangups <- syscall.SIGHUP
			p.says("has another listen or storeDir than the server that runs in this process", 1)
			apptest.Rewrite(t, file, "127.0.0.1:1", at)
		}
		apptest.Rewrite(t, file, embedded, "pipelines: [")
		p.hangups <- syscall.SIGHUP
		p.says("removed=[b]", round+1)
		assert.False(t, listens(), "the server is there still")
	}
}

// A terminal that closes ends the process, as it does without this program's doing.
func TestRun_without_a_file_leaves_SIGHUP_alone(t *testing.T) {
	api := apptest.APIServer(t, apptest.Identified)
	p := runs(t, byArgs(t, api, t.TempDir())...)
	p.says("stream watches", 1)
	assert.False(t, p.listened.Load(), "it takes the signal")
}

// A file may be a pipe, which has its text once, and then makes whoever opens it wait.
func TestRun_ends_where_its_file_is_a_pipe(t *testing.T) {
	file := apptest.Configured(t, apptest.APIServer(t, apptest.Identified), "[{resource: pods}]")
	text := must.Get(os.ReadFile(file))(t)
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(pipe, text, 0o600) }()
	p := runs(t, "run", "--config", pipe)
	p.says("msg=publishing", 1)
	require.NoError(t, <-written)
	select {
	case <-time.After(2 * time.Second): // it would have opened the pipe, and waited
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
		tell.tell([]resync.Stream{pods, nodes, {Pipeline: "p", Stream: "*.example.com", State: bridge.ResyncEmpty}},
			at.Add(time.Duration(second)*time.Second))
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
		"1 of 2 streams not published again; ask for that when /readyz of the bridge answers ok": {
			done,
			{State: bridge.ResyncRefused},
		},
		"1 of 1 stream not published again; ask for that when /readyz of the bridge answers ok": {{State: bridge.ResyncFailed}},
	} {
		got := ""
		if err := resyncProblem(all); err != nil {
			got = err.Error()
		}
		assert.Equal(t, want, got, "%+v", all)
	}
}

// hostile is what a stored name, or a server's answer, may have.
const hostile = "\x1b]0;title\x07 \x1b[2J\u202e\r\n\tä"

func TestResync_tells_problems_in_text_that_moves_no_terminal(t *testing.T) {
	var out bytes.Buffer
	told := resyncTeller{to: inert.NewWriter(&out), told: map[string]string{}}
	told.tell([]resync.Stream{{Pipeline: "p", Stream: hostile, State: bridge.ResyncFailed, Problem: hostile}}, time.Now())
	assert.NotContains(t, out.String(), "\x1b")
}
