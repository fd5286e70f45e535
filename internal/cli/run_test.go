// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/app/apptest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/cli/cmdutil"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testlog"
)

// output may be written to and read at the same time.
type output = testlog.Text

func TestRun_names_what_only_the_API_server_knows_to_be_wrong_as_wrong_usage(t *testing.T) {
	api := apptest.APIServer(t, apptest.Identified)
	for resources, want := range map[string]string{
		"[{resource: places, namespaces: [web]}]": "cluster-scoped",
		"[{resource: pods}, {resource: pd}]":      "objects in common",
	} {
		var stderr output
		file := apptest.Configured(t, api, resources)
		code := execute(t.Context(), []string{"run", "--config", file}, &cmdutil.Streams{Out: io.Discard, Err: &stderr})
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		if last := lines[len(lines)-1]; code != exit.Usage || !strings.HasPrefix(last, "error: ") ||
			!strings.Contains(last, want) {
			t.Errorf("%s: exit code %d, %s; want %d and %q", resources, code, stderr.String(), exit.Usage, want)
		}
	}
}

func TestRun_refuses_a_file_without_pipelines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "replicas.yaml")
	require.NoError(t, os.WriteFile(file, []byte(
		"replicas: [{name: a, from: {cluster: c, pipeline: p, nats: {}}, resources: [{resource: configmaps}]}]"), 0o600))
	for command, want := range map[string]string{
		"run": file + " has replicas and no pipelines, so there is nothing to publish; run it with: " +
			"kube-eventbridge replicate --config " + file,
		"tail": file + " has no pipelines, so there is nothing to read back",
	} {
		var stderr output
		code := execute(t.Context(), []string{command, "--config", file}, &cmdutil.Streams{Out: io.Discard, Err: &stderr})
		assert.Equal(t, exit.Usage, code, command)
		assert.Contains(t, stderr.String(), "error: "+want+"\n")
	}
}

var served = regexp.MustCompile(`address=(\S+)`)

// While the API server refuses to say which cluster it is, readyz has to say why, and no longer once it has said so.
func TestReadyz_says_why_the_API_server_is_still_asked(t *testing.T) {
	var stderr output
	asked := 0 // one after the other
	body := make(chan string, 1)
	api := apptest.APIServer(t, func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked == 1 {
			apptest.Forbid(w)
			return
		}
		if asked == 2 {
			body <- readyz(t, stderr.String())
		}
		apptest.Identified(w, r)
	})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	file := apptest.Configured(t, api, "[{resource: pods}]")
	ended := make(chan int, 1)
	go func() {
		ended <- execute(ctx, []string{"run", "--config", file}, &cmdutil.Streams{Out: io.Discard, Err: &stderr})
	}()
	var got string
	select {
	case got = <-body:
	case code := <-ended:
		t.Fatalf("run ended with %d, %s", code, stderr.String())
	}
	stop()
	assert.Equal(t, exit.Done, <-ended, "exit code, %s", stderr.String())
	require.True(t, strings.HasPrefix(got, "503 "), "readyz")
	assert.Contains(t, got, "not for the bridge", "readyz")
}

// readyz returns the status and body that the process with this log answers.
func readyz(t *testing.T, log string) string {
	t.Helper()
	address := served.FindStringSubmatch(log)
	if address == nil {
		return "no address in " + log
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address[1]+"/readyz", nil)
	if err != nil {
		return err.Error()
	}
	transport := &http.Transport{DisableKeepAlives: true}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	return fmt.Sprintf("%d %s %v", answer.StatusCode, text, err)
}
