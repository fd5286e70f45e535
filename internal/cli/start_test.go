// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/file"
	"github.com/kube-eventbridge/kube-eventbridge/internal/app/apptest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/cli/cmdutil"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// announced is an output that closes seen when text has been written to it.
type announced struct {
	output
	text string
	seen chan struct{}
}

func (a *announced) Write(p []byte) (int, error) {
	before := strings.Contains(a.String(), a.text)
	n, err := a.output.Write(p)
	if !before && strings.Contains(a.String(), a.text) {
		close(a.seen)
	}
	return n, err
}

// byArgs is the command line that runs pods of api with state in dir and servers on free ports.
func byArgs(t *testing.T, api *httptest.Server, dir string, more ...string) []string {
	t.Helper()
	kubeconfig := filepath.Join(filepath.Dir(apptest.Configured(t, api, "[{resource: pods}]")), "kubeconfig")
	return append([]string{
		"run", "pods", "--kubeconfig", kubeconfig, "--data-dir", dir, "--listen", "127.0.0.1:0", "--broker-listen",
		"127.0.0.1:0",
	}, more...)
}

// published runs args until the pipeline publishes, calls then, ends the run and returns what was logged.
func published(t *testing.T, args []string, then func()) string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	stderr := &announced{text: `"msg":"publishing`, seen: make(chan struct{})}
	ended := make(chan int, 1)
	go func() { ended <- execute(ctx, args, &cmdutil.Streams{Out: io.Discard, Err: stderr}) }()
	select {
	case <-stderr.seen:
	case code := <-ended:
		t.Fatalf("run ended with %d, %s", code, stderr.String())
	}
	then()
	stop()
	assert.Equal(t, exit.Done, <-ended, "exit code, %s", stderr.String())
	return stderr.String()
}

func TestRun_without_a_file_tells_where_all_is_and_does_not_wait_for_its_own_server(t *testing.T) {
	api, dir := apptest.APIServer(t, apptest.Identified), filepath.Join(t.TempDir(), "state")
	for range 2 { // at the first start and at the next
		log := published(t, byArgs(t, api, dir), func() {})
		for _, want := range []string{
			`"msg":"starting","version":"`, `"apiServer":"` + strings.TrimPrefix(api.URL, "http://") + `"`,
			`"cluster":"00000000-0000-4000-8000-000000000001"`, fmt.Sprintf(`"dataDir":%q`, dir),
			`"command":"kube-eventbridge tail --server nats://127.0.0.1:`,
		} {
			assert.Contains(t, log, want)
		}
		assert.NotContains(t, log, `"level":"WARN"`, "there is a warning")
	}
}

func TestRun_that_prints_has_a_server_only_where_it_is_asked_for(t *testing.T) {
	api := apptest.APIServer(t, apptest.Identified)
	all := byArgs(t, api, t.TempDir(), "-o", "json")
	without := slices.Concat(all[:6], all[10:])
	listening := slices.Concat(all[:8], all[10:])
	for _, c := range []struct {
		args []string
		want bool
	}{{without, false}, {listening, true}} {
		log := published(t, c.args, func() {})
		assert.Equal(t, c.want, strings.Contains(log, `"msg":"serving`),
			"%q: a server: want %v: %s", c.args, c.want, log)
	}
}

func TestRun_names_the_flag_for_another_directory(t *testing.T) {
	api, dir := apptest.APIServer(t, apptest.Identified), t.TempDir()
	log := published(t, byArgs(t, api, dir), func() {
		// A second server in a directory that is in use would destroy it: the checkpoint has to be refused before there
		// is one.
		fails(t, byArgs(t, api, dir), exit.Failed, "is in use by another kube-eventbridge",
			"another path is named with --data-dir")
	})
	assert.NotContains(t, log, `"level":"WARN"`, "there is a warning")

	foreign := t.TempDir()
	id := checkpoint.Identity{ClusterUID: "another", Cluster: "another", Pipeline: "default"}
	store := must.Get(file.Open(filepath.Join(foreign, "default.db"), id))(t)
	require.NoError(t, errors.Join(store.Commit(t.Context(), &checkpoint.Batch{Identity: id}), store.Close()))
	fails(t, byArgs(t, api, foreign), exit.Failed, "was written for cluster", "another path is named with --data-dir")
}

// fails runs args, which must end with code and one error that has all of wants.
func fails(t *testing.T, args []string, code int, wants ...string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute) // else what does not fail runs without an end
	defer stop()
	var stderr output
	got := execute(ctx, args, &cmdutil.Streams{Out: io.Discard, Err: &stderr})
	_, last, found := strings.Cut(stderr.String(), "error: ")
	assert.True(t, got == code && found && strings.Count(strings.TrimSpace(last), "\n") == 0,
		"exit code %d, %s; want %d and one line", got, stderr.String(), code)
	for _, want := range wants {
		assert.Contains(t, last, want)
	}
	assert.NotContains(t, last, "context canceled", "not the cause")
}

func TestRun_names_the_flag_or_key_of_an_address_in_use(t *testing.T) {
	taken := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer func() { _ = taken.Close() }()
	api, at := apptest.APIServer(t, apptest.Identified), taken.Addr().String()
	fails(t, byArgs(t, api, t.TempDir(), "--listen", at), exit.Failed, at,
		"address already in use; set --listen to a free address")
	fails(t, byArgs(t, api, t.TempDir(), "--listen", "192.0.2.7:8080"), exit.Failed, "192.0.2.7:8080",
		"set --listen to an address of this machine")
	fails(t, byArgs(t, api, t.TempDir(), "--broker-listen", at), exit.Failed, at,
		"or set --broker-listen to another address")
	file := apptest.Configured(t, api, "[{resource: pods}]")
	text := strings.Replace(string(must.Get(os.ReadFile(file))(t)), "server: {", `server: {admin: "`+at+`", `, 1)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	fails(t, []string{"run", "--config", file}, exit.Failed, at,
		"address already in use; set server.admin to a free address")
}

// Who runs the tests may write everywhere, so that the place has to be none: below a file there are no directories.
func TestRun_names_what_has_to_be_writable(t *testing.T) {
	api, file := apptest.APIServer(t, apptest.Identified), filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	below := filepath.Join(file, "state")
	fails(t, byArgs(t, api, below), exit.Failed, below, "set --data-dir to a directory that can be written")

	store := t.TempDir() // has the checkpoint, and a file where the server's directory belongs
	require.NoError(t, os.WriteFile(filepath.Join(store, "nats"), nil, 0o600))
	fails(t, byArgs(t, api, store), exit.Failed, filepath.Join(store, "nats"),
		"set --data-dir to a directory that can be written")

	bridge := apptest.Configured(t, api, "[{resource: pods}]")
	apptest.Rewrite(t, bridge, fmt.Sprintf("dataDir: %q", filepath.Dir(bridge)), fmt.Sprintf("dataDir: %q", below))
	fails(t, []string{"run", "--config", bridge}, exit.Failed, below, "set dataDir to a directory that can be written")
	apptest.Rewrite(t, bridge, "name: a,", fmt.Sprintf("name: a, checkpoint: {file: {path: %q}},", below))
	fails(t, []string{"run", "--config", bridge}, exit.Failed, "set pipelines[0].checkpoint.file.path to a directory")
}

// A container has no home, and may have nothing that can be written.
func TestRun_needs_no_home_where_nothing_is_written_there(t *testing.T) {
	t.Setenv("HOME", "")
	t.Setenv("XDG_STATE_HOME", "")
	api := apptest.APIServer(t, apptest.Identified)
	bridge := apptest.Configured(t, api, "[{resource: pods}]")
	apptest.Rewrite(t, bridge, fmt.Sprintf("dataDir: %q, ", filepath.Dir(bridge)), "")
	apptest.Rewrite(t, bridge, "format: text", "format: json")
	fails(t, []string{"run", "--config", bridge}, exit.Failed, "find a directory for state", "set dataDir")

	apptest.Rewrite(t, bridge, "sink: {stdout: {}}", fmt.Sprintf("sink: {nats: {servers: [%q]}}, checkpoint: {nats: {}}",
		startServer(t, &server.Options{JetStream: true, StoreDir: t.TempDir()})))
	if log := published(t, []string{"run", "--config", bridge}, func() {}); strings.Contains(log, "HOME") ||
		strings.Contains(log, "dataDir") {
		t.Errorf("the log is about a directory: %s", log)
	}
}

func TestRun_calls_secrets_that_are_not_there_wrong_usage(t *testing.T) {
	api := apptest.APIServer(t, apptest.Identified)
	for sink, want := range map[string]string{
		"tokenEnv: BRIDGE_NOT_SET":         "the environment variable BRIDGE_NOT_SET is not set",
		"tokenFile: no-token":              "no-token: no such file or directory",
		"tls: {caFile: no-authority}":      "no-authority: no such file or directory",
		"user: u, passwordEnv: BRIDGE_NOT": "the environment variable BRIDGE_NOT is not set",
	} {
		file := apptest.Configured(t, api, "[{resource: pods}]")
		apptest.Rewrite(t, file, "stdout: {}", "nats: {"+sink+"}")
		fails(t, []string{"run", "--config", file}, exit.Usage, "pipeline a: ", want)
	}
}
