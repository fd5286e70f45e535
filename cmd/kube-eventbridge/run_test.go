// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testlog"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// apiServer has Pods and Nodes, none of either, and calls identify for each question for the namespace kube-system.
func apiServer(t *testing.T, identify http.HandlerFunc) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	for path, text := range map[string]string{
		"/api":  `{"kind":"APIVersions","versions":["v1"]}`,
		"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
		"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[
			{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","shortNames":["po","pd"],"verbs":["list","watch"]},
			{"name":"places","singularName":"place","namespaced":false,"kind":"Place","verbs":["list","watch"]},
			{"name":"nodes","singularName":"node","namespaced":false,"kind":"Node","verbs":["list","watch"]}]}`,
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, text) })
	}
	mux.HandleFunc("GET /api/v1/namespaces/kube-system", identify)
	mux.HandleFunc("GET /api/v1/pods", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			answer(w, http.StatusOK, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`)
			return
		}
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func answer(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text)
}

func forbid(w http.ResponseWriter) {
	answer(w, http.StatusForbidden,
		`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"not for the bridge"}`)
}

func identified(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, `{"kind":"Namespace","apiVersion":"v1",
		"metadata":{"name":"kube-system","uid":"00000000-0000-4000-8000-000000000001"}}`)
}

// configured writes a configuration of one pipeline, from the API server to nowhere, and returns its file.
func configured(t *testing.T, api *httptest.Server, resources string) string {
	t.Helper()
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	file := filepath.Join(dir, "bridge.yaml")
	for path, text := range map[string]string{
		kubeconfig: fmt.Sprintf(`{clusters: [{name: c, cluster: {server: %q}}],
    contexts: [{name: c, context: {cluster: c}}], current-context: c}`, api.URL),
		file: fmt.Sprintf(`{kubernetes: {kubeconfig: %q}, dataDir: %q, server: {listen: "127.0.0.1:0"}, log: {format: text},
    pipelines: [{name: a, resources: %s, sink: {stdout: {}}}]}`, kubeconfig, dir, resources),
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return file
}

// output may be written to and read at the same time.
type output = testlog.Text

func TestRun_names_what_only_the_API_server_knows_to_be_wrong_as_wrong_usage(t *testing.T) {
	api := apiServer(t, identified)
	for resources, want := range map[string]string{
		"[{resource: places, namespaces: [web]}]": "cluster-scoped",
		"[{resource: pods}, {resource: pd}]":      "objects in common",
	} {
		var stderr output
		file := configured(t, api, resources)
		code := execute(t.Context(), []string{"run", "--config", file}, &streams{Out: io.Discard, Err: &stderr})
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		if last := lines[len(lines)-1]; code != exit.Usage || !strings.HasPrefix(last, "error: ") || !strings.Contains(last, want) {
			t.Errorf("%s: exit code %d, %s; want %d and %q", resources, code, stderr.String(), exit.Usage, want)
		}
	}
}

var served = regexp.MustCompile(`address=(\S+)`)

// While the API server refuses to say which cluster it is, readyz has to say why, and no longer once it has said so.
func TestReadyz_says_why_the_API_server_is_still_asked(t *testing.T) {
	var stderr output
	asked := 0 // one after the other
	body := make(chan string, 1)
	api := apiServer(t, func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked == 1 {
			forbid(w)
			return
		}
		if asked == 2 {
			body <- readyz(t, stderr.String())
		}
		identified(w, r)
	})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	file := configured(t, api, "[{resource: pods}]")
	ended := make(chan int, 1)
	go func() {
		ended <- execute(ctx, []string{"run", "--config", file}, &streams{Out: io.Discard, Err: &stderr})
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

func TestIdle_says_what_the_last_question_was_answered(t *testing.T) {
	p := &process{log: slog.New(slog.DiscardHandler)}
	var lines []string // one for each question, from before it
	idle := func() string {
		line, ready := p.idle()
		return fmt.Sprint(line, ready)
	}
	api := apiServer(t, func(w http.ResponseWriter, r *http.Request) {
		if lines = append(lines, idle()); len(lines) == 1 {
			forbid(w)
			return
		}
		identified(w, r)
	})
	p.client = must.Get(source.NewClient(&rest.Config{Host: api.URL}))(t)
	defer p.client.CloseIdleConnections()
	uid := must.Get(p.cluster(t.Context()))(t)
	require.True(t, uid != "" && len(lines) == 2, "%v %v", uid, lines)
	const before = "starting: the API server has not answered yetfalse"
	assert.True(t, lines[0] == before && strings.Contains(lines[1], "not for the bridge") && idle() == before,
		"before the first question %q, before the second %q, after it %q", lines[0], lines[1], idle())
}

func TestRun_calls_the_address_of_the_embedded_server_as_the_file_does(t *testing.T) {
	taken := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer func() { _ = taken.Close() }()
	cfg, _, err := config.Parse("f", fmt.Appendf(nil, `{dataDir: %q, pipelines: [
    {name: a, resources: [{resource: pods}], sink: {stdout: {}}},
    {name: b, resources: [{resource: pods}], sink: {embedded: {listen: %q}}}]}`, t.TempDir(), taken.Addr()))
	require.NoError(t, err)
	broker := must.Get((&process{log: slog.New(slog.DiscardHandler)}).embedded(cfg))(t)
	require.NotNil(t, broker, "%v", broker)
	err = broker.server.Run(t.Context())
	assert.ErrorContains(t, err, "or set pipelines[1].sink.embedded.listen to another address")
}

func TestProfiles_are_served_only_if_asked_for(t *testing.T) {
	for asked, want := range map[bool]int{false: http.StatusNotFound, true: http.StatusOK} {
		p := &process{cfg: &config.Config{Server: config.Server{Listen: "127.0.0.1:8080", Profiling: asked}}, registry: prometheus.NewRegistry()}
		handler := p.handler()
		for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/symbol"} {
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
			assert.Equal(t, want, answer.Code, "profiling: %v: %s answers", asked, path)
		}
	}
}

func TestSignals_first_drains_second_exits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal)
		exited := 0
		ctx, stop := cancelOnSignal(t.Context(), signals, func(code int) { exited = code })
		synctest.Wait()
		require.NoError(t, ctx.Err(), "ended without a signal")
		signals <- syscall.SIGTERM
		synctest.Wait()
		require.True(t, ctx.Err() != nil && context.Cause(ctx).Error() == "received terminated" && exited == 0,
			"after the first signal: %v, exited with %d", context.Cause(ctx), exited)
		signals <- syscall.SIGINT
		synctest.Wait()
		assert.Equal(t, 130, exited, "the second signal exits, want 130")
		stop()
	})
}

func TestSignals_stop_ends_the_context_and_what_waits_for_signals(t *testing.T) {
	for name, sent := range map[string]int{"before a signal": 0, "after the first": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // fails where a goroutine is left
				signals := make(chan os.Signal)
				ctx, stop := cancelOnSignal(t.Context(), signals, func(int) { t.Error("exited") })
				for range sent {
					signals <- syscall.SIGTERM
				}
				stop()
				assert.Error(t, ctx.Err(), "the context goes on")
			})
		})
	}
}

// A name that is anybody's may lead to the loopback address. No path answers to it. What changes something is served at
// one address only.
func TestServers_guard_all_paths(t *testing.T) {
	for admin, posts := range map[string][]int{"": {http.StatusServiceUnavailable}, "127.0.0.1:0": {http.StatusForbidden, http.StatusServiceUnavailable}} {
		p := &process{
			cfg: &config.Config{Server: config.Server{Listen: "127.0.0.1:0", Admin: admin, Profiling: true}}, registry: prometheus.NewRegistry(),
			log: slog.New(slog.DiscardHandler), unstarted: errors.New("dial https://me:secret@api: \x1b[31mno"),
		}
		servers := must.Get(p.listen())(t)
		require.Len(t, servers, len(posts))
		for i, want := range posts {
			server := httptest.NewUnstartedServer(servers[i].Handler)
			require.NoError(t, server.Listener.Close())
			server.Listener = servers[i].Listener
			server.Start()
			defer server.Close()
			code, _ := asked(t, server.URL+"/resync", http.MethodPost, "")
			assert.Equal(t, want, code, "admin %q, server %d", admin, i)
			for _, path := range []string{"/", "/api/status", "/metrics", "/livez", "/readyz", "/resync", "/debug/pprof/heap", "/any"} {
				code, _ := asked(t, server.URL+path, http.MethodGet, "evil.example")
				assert.Equal(t, http.StatusForbidden, code, path)
			}
		}
		_, text := asked(t, "http://"+servers[0].Addr().String()+"/readyz", http.MethodGet, "")
		assert.Contains(t, text, "[redacted]")
		assert.NotContains(t, text, "secret")
		assert.NotContains(t, text, "\x1b")
	}
}

// asked returns what a server answers to a request for a host.
func asked(t *testing.T, url, method, host string) (code int, text string) {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), method, url, nil))(t)
	r.Host = host
	transport := &http.Transport{DisableKeepAlives: true}
	answer, err := transport.RoundTrip(r)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	return answer.StatusCode, string(must.Get(io.ReadAll(answer.Body))(t))
}
