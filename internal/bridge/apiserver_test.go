// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source/catalog"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
)

// apiServer serves lists and watches of ConfigMaps to which a test adds objects, one a version.
type apiServer struct {
	*httptest.Server
	size int

	mu      sync.Mutex
	grown   chan struct{}
	version int
	// away makes every request fail.
	away bool
}

func newAPIServer(t testing.TB, size int) *apiServer {
	a := &apiServer{size: size, version: 1, grown: make(chan struct{})}
	mux := http.NewServeMux()
	static := func(path, text string) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(text))
		})
	}
	static("/api", `{"kind":"APIVersions","versions":["v1"]}`)
	static("/apis", `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
	static("/api/v1",
		`{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"configmaps","singularName":"configmap",`+
			`"namespaced":true,"kind":"ConfigMap","shortNames":["cm"],"verbs":["list","watch"]}]}`)
	mux.HandleFunc("GET /api/v1/configmaps", a.configMaps)
	mux.HandleFunc("GET /api/v1/namespaces/default/configmaps", a.configMaps)
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		away := a.away
		a.mu.Unlock()
		if away {
			http.Error(w, `{"kind":"Status","code":500}`, http.StatusInternalServerError)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(a.Close)
	return a
}

// add makes n objects, which watches then show.
func (a *apiServer) add(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version += n
	close(a.grown)
	a.grown = make(chan struct{})
}

func (a *apiServer) setAway(away bool) {
	a.mu.Lock()
	a.away = away
	a.mu.Unlock()
	if away {
		a.CloseClientConnections()
	}
}

func (a *apiServer) now() (version int, grown chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.version, a.grown
}

func (a *apiServer) object(version int) string {
	return fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"an-object-with-a-name-%08d",`+
		`"namespace":"default","uid":"00000000-0000-4000-8000-%012d","resourceVersion":"%d","creationTimestamp":"2026-01-02T03:04:05Z"},"data":{"k":"%s"}}`,
		version, version, version, strings.Repeat("x", a.size))
}

// The first object is at version 2.
func (a *apiServer) configMaps(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if watch, _ := strconv.ParseBool(r.URL.Query().Get("watch")); watch {
		a.watch(w, r)
		return
	}
	version, _ := a.now()
	if exact := r.URL.Query().Get("resourceVersion"); exact != "" {
		version, _ = strconv.Atoi(exact)
	}
	first, last, next := 2, version, ""
	if name, ok := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name="); ok {
		var v int
		if _, err := fmt.Sscanf(name, "an-object-with-a-name-%08d", &v); err != nil || v > version {
			v = version + 1
		}
		first, last = v, min(v, version)
	} else if token := r.URL.Query().Get("continue"); token != "" {
		first, _ = strconv.Atoi(token)
	} else if version > 2 {
		last, next = 2, "3"
	}
	_, _ = fmt.Fprintf(w,
		`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"%d","continue":"%s"},"items":[`,
		version, next)
	for v := first; v <= last; v++ {
		if v > first {
			_, _ = w.Write([]byte(","))
		}
		_, _ = w.Write([]byte(a.object(v)))
	}
	_, _ = w.Write([]byte("]}"))
}

func (a *apiServer) watch(w http.ResponseWriter, r *http.Request) {
	at, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	for {
		version, grown := a.now()
		for ; at < version; at++ {
			if _, err := fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", a.object(at+1)); err != nil {
				return
			}
		}
		w.(http.Flusher).Flush()
		select {
		case <-grown:
		case <-r.Context().Done():
			return
		}
	}
}

// bridge is a pipeline that Run runs against an apiServer.
type bridge struct {
	*Pipeline
	registry *prometheus.Registry
	ended    chan error
	stop     func() error
}

func runBridge(t testing.TB, api *apiServer, to sink.Sink, store checkpoint.Store, change func(*Config)) *bridge {
	t.Helper()
	at := &rest.Config{Host: api.URL}
	client := must.Get(kube.NewClient(at))(t)
	catalog := must.Get(catalog.New(at, client, catalog.Config{}))(t)
	registry := prometheus.NewRegistry()
	c := Config{
		Name: "test", Sink: func(func() uint64) (sink.Sink, error) { return to, nil }, Store: store, Buffer: 1 << 20,
		Client: client, Catalog: catalog, Metrics: health.NewMetrics(registry),
		Streams: []StreamSpec{{Resource: "configmaps", Encoding: encode.Config{Cluster: "test", Pipeline: "test"}}},
	}
	if change != nil {
		change(&c)
	}
	b := &bridge{Pipeline: New(c), registry: registry, ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var asking sync.WaitGroup
	if c.Catalog == catalog { // else its owner runs it
		asking.Go(func() { _ = catalog.Run(ctx) })
	}
	go func() {
		b.ended <- b.Run(ctx)
		close(b.ended)
	}()
	b.stop = sync.OnceValue(func() error {
		cancel()
		asking.Wait()
		defer client.CloseIdleConnections()
		select {
		case err := <-b.ended:
			return err
		case <-time.After(time.Minute):
			return errors.New("the pipeline does not stop")
		}
	})
	t.Cleanup(func() { _ = b.stop() })
	return b
}

// session waits for the session that runs.
func (b *bridge) session(t testing.TB) *session {
	t.Helper()
	must.Happen(t, "a session", func() bool { return b.current.Load() != nil })
	return b.current.Load()
}

// only returns the pipeline's stream once it is open.
func (b *bridge) only(t testing.TB) *stream.Stream {
	t.Helper()
	must.Happen(t, "the stream", func() bool { return len(b.session(t).journal.Opened()) == 1 })
	return b.session(t).journal.Opened()[0]
}

// catalogOf returns a catalog that has looked once.
func catalogOf(t *testing.T, api *apiServer) *catalog.Catalog {
	t.Helper()
	at := &rest.Config{Host: api.URL}
	client := must.Get(kube.NewClient(at))(t)
	t.Cleanup(client.CloseIdleConnections)
	catalog := must.Get(catalog.New(at, client, catalog.Config{}))(t)
	must.Get(catalog.Look(t.Context()))(t)
	return catalog
}

// clientOf returns a client of the API server.
func clientOf(t *testing.T, a *apiServer) *kube.Client {
	t.Helper()
	client := must.Get(kube.NewClient(&rest.Config{Host: a.URL}))(t)
	t.Cleanup(client.CloseIdleConnections)
	return client
}
