// SPDX-License-Identifier: Apache-2.0

package kubetest

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

	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// Script is an API server that answers each request as the test says, for faults that a real one shows rarely.
// What a real one does is tested against a real one, in the integration module.
//
// It listens on a pipe, so that a test within [synctest.Test] passes minutes of waiting at once.
type Script struct {
	t       *testing.T
	started time.Time
	conns   chan net.Conn
	closed  chan struct{}

	mu    sync.Mutex
	Steps []Step
	// Now is the version that the server is at when it is asked for that only, before a watch. Of old versions it has
	// no lists, unless a step says so.
	Now string
	got []request
	// Model, if it is not nil, answers instead of the steps.
	Model http.Handler
}

type request struct {
	Path, Query string
	at          time.Duration
}

// Step answers one request, or all that follow if it is the last one and repeats. Want is a part of its query.
type Step struct {
	Want   string
	Status int
	// After is the header Retry-After.
	After string
	Body  string
	// Hold keeps the connection open until the test ends, or for that long.
	Hold    bool
	HoldFor time.Duration
	// Mute sends not even a header.
	Mute bool
	// Cut ends the response without its end.
	Cut     bool
	Repeats bool
}

// NewScript starts a server, which ends with the test.
func NewScript(t *testing.T, steps ...Step) *Script {
	s := &Script{
		t: t, Steps: steps, started: time.Now(), conns: make(chan net.Conn), closed: make(chan struct{}),
		Now: "1000000",
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
func (s *Script) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (s *Script) Close() error {
	close(s.closed)
	return nil
}

// Addr implements net.Listener.
func (s *Script) Addr() net.Addr { return &net.TCPAddr{} }

func (s *Script) dial(ctx context.Context, _, _ string) (net.Conn, error) {
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

// Config is what clients of the server are made of.
func (s *Script) Config() *rest.Config {
	return &rest.Config{Host: "http://api.example.com", Dial: s.dial}
}

func (s *Script) next(r *http.Request) (Step, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	query := r.URL.RawQuery
	if query == "limit=1" && (len(s.Steps) == 0 || s.Steps[0].Want != query) {
		return Step{Want: query, Body: ListOf(s.Now, "")}, true
	}
	if exact := "resourceVersionMatch=Exact"; strings.Contains(query, exact) &&
		(len(s.Steps) == 0 || !strings.Contains(s.Steps[0].Want, exact)) {
		return Step{Want: exact, Status: http.StatusGone, Body: ExpiredStatus}, true
	}
	s.got = append(s.got, request{r.URL.Path, query, time.Since(s.started)})
	if len(s.Steps) == 0 {
		return Step{}, false
	}
	st := s.Steps[0]
	if !st.Repeats {
		s.Steps = s.Steps[1:]
	}
	return st, true
}

// Requests returns those that had a step, and those after the last step.
func (s *Script) Requests() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

// Waits returns the times between one request and the next.
func (s *Script) Waits() (waits []time.Duration) {
	got := s.Requests()
	for i := 1; i < len(got); i++ {
		waits = append(waits, got[i].at-got[i-1].at)
	}
	return waits
}

func (s *Script) serve(w http.ResponseWriter, r *http.Request) {
	if s.Model != nil {
		s.Model.ServeHTTP(w, r)
		return
	}
	st, ok := s.next(r)
	if !ok || st.Mute {
		<-r.Context().Done()
		return
	}
	assert.Contains(s.t, r.URL.RawQuery, st.Want, "request, want %q in it", st.Want)
	assert.NotContains(s.t, r.URL.RawQuery, "sendInitialEvents",
		"request %q asks for a list by way of a watch", r.URL.RawQuery)
	if st.After != "" {
		w.Header().Set("Retry-After", st.After)
	}
	if st.Status != 0 {
		w.WriteHeader(st.Status)
	}
	_, _ = w.Write([]byte(st.Body))
	_ = http.NewResponseController(w).Flush()
	var over <-chan time.Time
	if st.HoldFor > 0 {
		over = time.After(st.HoldFor)
	}
	if st.Hold || over != nil {
		select {
		case <-over:
		case <-r.Context().Done():
		}
	}
	if st.Cut {
		panic(http.ErrAbortHandler)
	}
}

// ConfigMap returns the JSON of one.
func ConfigMap(name, uid, version string) string {
	return fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":`+
		`{"name":%q,"namespace":"default","uid":%q,"resourceVersion":%q},"data":{"k":"v"}}`, name, uid, version)
}

// Bookmark returns the frame of a watch that is one.
func Bookmark(version string) string {
	return FrameOf("BOOKMARK", `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"`+version+`"}}`)
}

// FrameOf returns the frame of a watch.
func FrameOf(kind, object string) string { return `{"type":"` + kind + `","object":` + object + "}\n" }

// ListOf returns a page of a list; token is empty for the last one.
func ListOf(version, token string, items ...string) string {
	return fmt.Sprintf(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":%q,"continue":%q},`+
		`"items":[%s]}`,
		version, token, strings.Join(items, ","))
}

// ExpiredStatus is the answer to who asks for a version that is gone.
const ExpiredStatus = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,` +
	`"message":"too old resource version: 3 (9)"}`

// ConfigMaps is the stream of those of all namespaces.
var ConfigMaps = source.Stream{Resource: source.Resource{
	Version: "v1", Resource: "configmaps", Kind: "ConfigMap",
	Namespaced: true,
}}

// Nameless are objects without an identity, as some aggregated API servers send them.
var Nameless = map[string]string{
	"name": `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"namespace":"default","uid":"u-x",` +
		`"resourceVersion":"9"}}`,
	"uid": `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"default",` +
		`"resourceVersion":"9"}}`,
	"resourceVersion": `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"default","uid":"u-x"}}`,
}

// StatusOf returns the JSON of a failure.
func StatusOf(code int, reason, message string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":%q}`, reason,
		code, message)
}
