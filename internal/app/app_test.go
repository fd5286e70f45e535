// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/kube-eventbridge/kube-eventbridge/internal/app/apptest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
)

func TestIdle_says_what_the_last_question_was_answered(t *testing.T) {
	p := &process{builder: builder{log: slog.New(slog.DiscardHandler)}}
	var lines []string // one for each question, from before it
	idle := func() string {
		line, ready := p.idle()
		return fmt.Sprint(line, ready)
	}
	api := apptest.APIServer(t, func(w http.ResponseWriter, r *http.Request) {
		if lines = append(lines, idle()); len(lines) == 1 {
			apptest.Forbid(w)
			return
		}
		apptest.Identified(w, r)
	})
	p.client = must.Get(kube.NewClient(&rest.Config{Host: api.URL}))(t)
	defer p.client.CloseIdleConnections()
	uid := must.Get(p.awaitCluster(t.Context()))(t)
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
	broker := must.Get((&process{builder: builder{log: slog.New(slog.DiscardHandler)}}).embedded(cfg))(t)
	require.NotNil(t, broker, "%v", broker)
	err = broker.server.Run(t.Context())
	assert.ErrorContains(t, err, "or set pipelines[1].sink.embedded.listen to another address")
}

func TestProfiles_are_served_only_if_asked_for(t *testing.T) {
	for asked, want := range map[bool]int{false: http.StatusNotFound, true: http.StatusOK} {
		p := &process{
			builder: builder{
				cfg: &config.Config{Server: config.Server{Listen: "127.0.0.1:0", Profiling: asked}},
				log: slog.New(slog.DiscardHandler),
			},
			registry: prometheus.NewRegistry(),
		}
		handler := must.Get(p.listen())(t)[0]
		require.NoError(t, handler.Close())
		for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/symbol"} {
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
			assert.Equal(t, want, answer.Code, "profiling: %v: %s answers", asked, path)
		}
	}
}

// A name that is anybody's may lead to the loopback address. No path answers to it. What changes something is served at
// one address only.
func TestServers_guard_all_paths(t *testing.T) {
	for admin, posts := range map[string][]int{
		"":            {http.StatusServiceUnavailable},
		"127.0.0.1:0": {http.StatusForbidden, http.StatusServiceUnavailable},
	} {
		p := &process{
			builder: builder{
				cfg: &config.Config{Server: config.Server{Listen: "127.0.0.1:0", Admin: admin, Profiling: true}},
				log: slog.New(slog.DiscardHandler),
			},
			report:   report{unstarted: errors.New("dial https://me:secret@api: \x1b[31mno")},
			registry: prometheus.NewRegistry(),
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
			code, text := asked(t, server.URL+"/", http.MethodGet, "")
			assert.Equal(t, http.StatusOK, code, "the status, admin %q, server %d: %s", admin, i, text)
			for _, path := range []string{
				"/", "/api/status", "/metrics", "/livez", "/readyz", "/resync", "/debug/pprof/heap",
				"/any",
			} {
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

func TestUnwritable_is_what_trying_again_does_not_mend(t *testing.T) {
	for _, err := range []error{syscall.EROFS, syscall.EACCES, syscall.EPERM, syscall.ENOTDIR, syscall.ENOENT} {
		assert.True(t, unwritable(fmt.Errorf("open: %w", &fs.PathError{Op: "open", Err: err})), "%v is not", err)
	}
	for _, err := range []error{syscall.ENOSPC, syscall.EIO, errors.New("damaged")} {
		assert.False(t, unwritable(err), "%v is", err)
	}
}

func TestQuiet_leaves_out_what_klog_says_to_its_developers(t *testing.T) {
	var debug, info bytes.Buffer
	for out, l := range map[*bytes.Buffer]config.Level{&debug: config.LevelDebug, &info: config.LevelInfo} {
		klog.SetSlogLogger(slog.New(quiet{newLogger(out, config.Log{Level: l, Format: config.FormatText},
			level(l)).Handler()}))
		for v, text := range []string{"zero", "one", "two", "three", "four"} {
			klog.Background().WithName("client").WithValues("a", 1).V(v).Info(text)
		}
		klog.ClearLogger()
	}
	for out, want := range map[*bytes.Buffer][]string{&debug: {"zero", "one"}, &info: {"zero"}} {
		assert.Equal(t, len(want), strings.Count(out.String(), "\n"), "lines, want %v: %s", want, out)
		for _, text := range want {
			assert.Contains(t, out.String(), "msg="+text, "%s is not in %s", text, out)
		}
	}
}

func TestQuiet_leaves_out_that_a_stop_has_ended_a_request(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(quiet{newLogger(&out, config.Log{Format: config.FormatText}, slog.LevelInfo).Handler()})
	log.Error("read", "err", fmt.Errorf("body: %w", context.Canceled))
	assert.Empty(t, out.String())
	log.Error("read", "err", io.ErrUnexpectedEOF)
	assert.Contains(t, out.String(), "unexpected EOF")
}

// The address is in events of Knative's profile, and in the log.
func TestReach_keeps_the_user_of_an_address_to_itself(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: " +
		"u}}]\nusers: [{name: u, user: {}}]\nclusters: [{name: c, cluster: {server: " +
		"'http://bridge:canary@127.0.0.1:1/path'}}]\n"
	require.NoError(t, os.WriteFile(kubeconfig, []byte(text), 0o600))
	p := &process{builder: builder{cfg: &config.Config{Kubernetes: config.Kubernetes{Kubeconfig: kubeconfig}}}}
	require.NoError(t, p.reach())
	assert.Equal(t, "127.0.0.1:1", p.host, "host, address")
	assert.Equal(t, "http://127.0.0.1:1/path", p.apiServer, "host, address")
}
