// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/client-go/rest"
)

// script is an API server that answers each request as the test says, for faults that a real one shows rarely.
// What a real one does is tested against a real one, in the integration module.
//
// It listens on a pipe, so that a test within [synctest.Test] passes minutes of waiting at once.
type script struct {
	t       *testing.T
	started time.Time
	conns   chan net.Conn
	closed  chan struct{}

	mu    sync.Mutex
	steps []step
	// now is the version that the server is at when it is asked for that only, before a watch. Of old versions it has
	// no lists, unless a step says so.
	now string
	got []request
	// model, if it is not nil, answers instead of the steps.
	model http.Handler
}

type request struct {
	path, query string
	at          time.Duration
}

// step answers one request, or for ever, if it is the last one and repeats. Want is a part of its query.
type step struct {
	want   string
	status int
	// after is the header Retry-After.
	after string
	body  string
	// hold keeps the connection open until the test ends, or for that long.
	hold    bool
	holdFor time.Duration
	// mute sends not even a header.
	mute bool
	// cut ends the response without its end.
	cut     bool
	repeats bool
}

func newScript(t *testing.T, steps ...step) *script {
	s := &script{
		t: t, steps: steps, started: time.Now(), conns: make(chan net.Conn), closed: make(chan struct{}),
		now: "1000000",
	}
	server := &http.Server{Handler: http.HandlerFunc(s.serve), ErrorLog: log.New(io.Discard, "", 0)}
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(s) })
	t.Cleanup(func() {
		_ = server.Close()
		running.Wait()
	})
	return s
}

// Accept implements net.Listener.
func (s *script) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (s *script) Close() error {
	close(s.closed)
	return nil
}

// Addr implements net.Listener.
func (s *script) Addr() net.Addr { return &net.TCPAddr{} }

func (s *script) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case s.conns <- there:
		return here, nil
	case <-s.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// config is what clients of the server are made of.
func (s *script) config() *rest.Config {
	return &rest.Config{Host: "http://api.example.com", Dial: s.dial}
}

func (s *script) next(r *http.Request) (step, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	query := r.URL.RawQuery
	if query == "limit=1" && (len(s.steps) == 0 || s.steps[0].want != query) {
		return step{want: query, body: listOf(s.now, "")}, true
	}
	if exact := "resourceVersionMatch=Exact"; strings.Contains(query, exact) &&
		(len(s.steps) == 0 || !strings.Contains(s.steps[0].want, exact)) {
		return step{want: exact, status: http.StatusGone, body: expiredStatus}, true
	}
	s.got = append(s.got, request{r.URL.Path, query, time.Since(s.started)})
	if len(s.steps) == 0 {
		return step{}, false
	}
	st := s.steps[0]
	if !st.repeats {
		s.steps = s.steps[1:]
	}
	return st, true
}

// requests returns those that had a step, and those after the last step.
func (s *script) requests() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

// waits returns the times between one request and the next.
func (s *script) waits() (waits []time.Duration) {
	got := s.requests()
	for i := 1; i < len(got); i++ {
		waits = append(waits, got[i].at-got[i-1].at)
	}
	return waits
}

func (s *script) serve(w http.ResponseWriter, r *http.Request) {
	if s.model != nil {
		s.model.ServeHTTP(w, r)
		return
	}
	st, ok := s.next(r)
	if !ok || st.mute {
		<-r.Context().Done()
		return
	}
	assert.Contains(s.t, r.URL.RawQuery, st.want, "request, want %q in it", st.want)
	assert.NotContains(s.t, r.URL.RawQuery, "sendInitialEvents",
		"request %q asks for a list by way of a watch", r.URL.RawQuery)
	if st.after != "" {
		w.Header().Set("Retry-After", st.after)
	}
	if st.status != 0 {
		w.WriteHeader(st.status)
	}
	_, _ = w.Write([]byte(st.body))
	_ = http.NewResponseController(w).Flush()
	var over <-chan time.Time
	if st.holdFor > 0 {
		over = time.After(st.holdFor)
	}
	if st.hold || over != nil {
		select {
		case <-over:
		case <-r.Context().Done():
		}
	}
	if st.cut {
		panic(http.ErrAbortHandler)
	}
}

func cm(name, uid, version string) string {
	return fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":`+
		`{"name":%q,"namespace":"default","uid":%q,"resourceVersion":%q},"data":{"k":"v"}}`, name, uid, version)
}

func bookmark(version string) string {
	return frameOf("BOOKMARK", `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"`+version+`"}}`)
}

func frameOf(kind, object string) string { return `{"type":"` + kind + `","object":` + object + "}\n" }

func listOf(version, token string, items ...string) string {
	return fmt.Sprintf(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":%q,"continue":%q},`+
		`"items":[%s]}`,
		version, token, strings.Join(items, ","))
}

const expiredStatus = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,` +
	`"message":"too old resource version: 3 (9)"}`

var configMaps = Stream{Resource: Resource{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true}}

// Objects without an identity, as some aggregated API servers send them.
var nameless = map[string]string{
	"name": `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"namespace":"default","uid":"u-x",` +
		`"resourceVersion":"9"}}`,
	"uid": `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"default",` +
		`"resourceVersion":"9"}}`,
	"resourceVersion": `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"default","uid":"u-x"}}`,
}

func statusOf(code int, reason, message string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":%q}`, reason,
		code, message)
}
