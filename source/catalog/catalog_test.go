// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
)

// served is an API server that serves core/v1 pods and, unless it lacks them, widgets.x.io, and says of their
// definition what a test wants.
type served struct {
	mu      sync.Mutex
	widgets bool
	// answers are those to GETs, by the end of the path: a status, and the body of a 200.
	answers map[string]string
	asked   atomic.Int32
}

func (s *served) set(widgets bool, answers map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.widgets, s.answers = widgets, answers
}

func (s *served) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	const list = `{"kind":"APIResourceList","groupVersion":%q,"resources":[{"name":%q,"singularName":%q,` +
		`"namespaced":true,"kind":"K","verbs":["list","watch"]}]}`
	group := `{"name":"x.io","versions":[{"groupVersion":"x.io/v1","version":"v1"}],` +
		`"preferredVersion":{"groupVersion":"x.io/v1","version":"v1"}}`
	if !s.widgets {
		group = ""
	}
	switch path := r.URL.Path; {
	case path == "/api":
		_, _ = fmt.Fprint(w, `{"kind":"APIVersions","versions":["v1"]}`)
	case path == "/api/v1":
		_, _ = fmt.Fprintf(w, list, "v1", "pods", "pod")
	case path == "/apis":
		s.asked.Add(1)
		_, _ = fmt.Fprintf(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[%s]}`, group)
	case path == "/apis/x.io/v1" && s.widgets:
		_, _ = fmt.Fprintf(w, list, "x.io/v1", "widgets", "widget")
	default:
		answer := s.answers[path[strings.LastIndex(path, "/")+1:]]
		code, body, _ := strings.Cut(answer, " ")
		switch code {
		case "200":
			_, _ = fmt.Fprint(w, body)
		case "403":
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprint(w, `{"kind":"Status","status":"Failure","reason":"Forbidden","code":403}`)
		case "404":
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprint(w, `{"kind":"Status","status":"Failure","reason":"NotFound","code":404}`)
		case "503":
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			http.NotFound(w, r) // as for a path that is not served
		}
	}
}

func newCatalog(t *testing.T, s *served) *Catalog {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	cfg := &rest.Config{Host: server.URL}
	client := must.Get(kube.NewClient(cfg))(t)
	c := must.Get(New(cfg, client, Config{}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-ended)
		client.CloseIdleConnections()
	})
	c.await(t, func(o *Offers) bool { return o != nil })
	return c
}

// await waits until the offers are so.
func (c *Catalog) await(t *testing.T, ok func(*Offers) bool) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		offers, changed := c.Now()
		if ok(offers) {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatal("the catalog does not change")
		}
	}
}

// aged makes the row of answers as long as that, and the last one of now.
func (c *Catalog) aged(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen.last = time.Now()
	c.seen.since = c.seen.last.Add(-by)
}

var widgetsOfX = source.Resource{Group: "x.io", Version: "v1", Resource: "widgets", Kind: "K", Namespaced: true}

func TestCatalog_shows_what_comes_and_goes_when_it_is_asked_to_look(t *testing.T) {
	s := &served{widgets: false}
	c := newCatalog(t, s)
	s.set(true, nil)
	c.Refresh()
	c.await(t, func(o *Offers) bool { return o.Get("x.io", "widgets") != nil })
	offers, _ := c.Now()
	got := offers.Get("x.io", "widgets")
	assert.True(t, len(got.Versions) == 1 && got.Versions[0] == widgetsOfX && got.Names[0] == "widget", "got %+v", got)
	assert.False(t, c.Gone(t.Context(), widgetsOfX), "what is served is gone")
	s.set(false, nil)
	c.Refresh()
	c.await(t, func(o *Offers) bool { return o.Get("x.io", "widgets") == nil })
}

func TestCatalog_is_certain_that_something_is_gone_only_by_its_definition(t *testing.T) {
	s := &served{}
	c := newCatalog(t, s)
	c.aged(settledAfter)
	const definition, services = "widgets.x.io", "apiservices"
	const other = `{"metadata":{"name":"v1.y.io"},"spec":{"group":"y.io","service":{"name":"s"}}}`
	const own = `{"metadata":{"labels":{"kube-aggregator.kubernetes.io/automanaged":"%s"}},"spec":{"group":"x.io"}}`
	const remote = `{"spec":{"group":"x.io","version":"v2","service":{"name":"s"}},` +
		`"status":{"conditions":[{"type":"Available","status":"%s"}]}}`
	list := func(item string) string { return `200 {"items":[` + item + `]}` }
	for name, k := range map[string]struct {
		answers      map[string]string
		gone, inTime bool
	}{
		"nothing defines it": {
			map[string]string{definition: "404", services: list(other)},
			true,
			true,
		},
		"others of its group are there": {map[string]string{
			definition: "404",
			services:   list(fmt.Sprintf(own, "true")),
		}, true, true},
		"nothing defines it, says one that starts": {map[string]string{
			definition: "404", services: list(""),
			"readyz": "503",
		}, false, false},
		"the API server itself has its group": {map[string]string{
			definition: "404",
			services:   list(fmt.Sprintf(own, "onstart")),
		}, false, true},
		"it is defined": {map[string]string{definition: `200 {}`}, false, false},
		"its group is another API server's": {map[string]string{
			definition: "404",
			services:   list(fmt.Sprintf(remote, "True")),
		}, false, true},
		"its group is that of an API server away": {map[string]string{
			definition: "404",
			services:   list(fmt.Sprintf(remote, "False")),
		}, false, false},
		"it may not be asked":                          {map[string]string{definition: "403"}, false, true},
		"half of it may not be asked":                  {map[string]string{definition: "404", services: "403"}, false, true},
		"the API server has no definitions yet":        {nil, false, false},
		"the API server is starting":                   {map[string]string{definition: "503"}, false, false},
		"the API server has no other servers so far":   {map[string]string{definition: "404"}, false, false},
		"the API server says 404 of all other servers": {map[string]string{definition: "404", services: "404"}, false, false},
	} {
		s.set(false, k.answers)
		assert.Equal(t, k.gone, c.Gone(t.Context(), widgetsOfX), name)
		c.aged(certainAfter)
		assert.Equal(t, k.inTime, c.Gone(t.Context(), widgetsOfX), "%s, for long", name)
		c.aged(settledAfter)
	}
}

// Of what Kubernetes has by itself an older API server among several may know nothing for as long as an upgrade takes.
func TestCatalog_never_takes_for_gone_what_is_built_in(t *testing.T) {
	s := &served{answers: map[string]string{"poddisruptionbudgets.policy": "404", "apiservices": `200 {"items":[]}`}}
	c := newCatalog(t, s)
	c.aged(time.Hour)
	for _, group := range []string{"", "policy", "apiextensions.k8s.io", "apiregistration.k8s.io"} {
		builtIn := source.Resource{Group: group, Version: "v1beta1", Resource: "poddisruptionbudgets"}
		assert.False(t, c.Gone(t.Context(), builtIn), "of group %q", group)
	}
}

func TestCatalog_takes_no_single_answer_for_the_end_of_a_resource(t *testing.T) {
	s := &served{widgets: true}
	c := newCatalog(t, s)
	s.set(false, map[string]string{"widgets.x.io": "404", "apiservices": `200 {"items":[]}`})
	c.aged(certainAfter)
	c.Refresh()
	c.await(t, func(o *Offers) bool { return o.Get("x.io", "widgets") == nil })
	assert.False(t, c.Gone(t.Context(), widgetsOfX), "it is gone at the first answer that lacks it")
}

// An API server that moves to another version may be away just then.
func TestCatalog_takes_nothing_for_gone_while_its_group_fails(t *testing.T) {
	s := &served{widgets: true}
	c := newCatalog(t, s)
	s.set(false, map[string]string{"widgets.x.io": "404", "apiservices": `200 {"items":[]}`})
	c.Refresh()
	c.await(t, func(o *Offers) bool { return o.Get("x.io", "widgets") == nil })
	c.mu.Lock()
	before := c.offers
	a := says("v1:pods x.io/v2!")
	now := c.seen.last.Add(time.Minute)
	c.seen.answered(now, a.failed, before, a.offers(before))
	c.mu.Unlock()
	assert.False(t, c.Gone(t.Context(), widgetsOfX), "it is gone, though its group fails")
}

// A doubt that stays has the API server asked once each time, unlike what a definition says, which is soon true.
func TestCatalog_asks_once_where_something_is_in_doubt(t *testing.T) {
	for name, k := range map[string]struct {
		ask  func(*Catalog)
		want int
	}{
		"a doubt":      {(*Catalog).Refresh, 1},
		"a definition": {(*Catalog).news, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &served{}
			c := newCatalog(t, s)
			before := s.asked.Load()
			k.ask(c)
			asked := func() int { return int(s.asked.Load() - before) }
			must.Happen(t, "a request", func() bool { return asked() >= k.want })
			_ = pause.For(t.Context(), together+echoes()[0]+800*time.Millisecond)
			assert.Equal(t, k.want, asked(), "requests")
		})
	}
}

// Without a word of what defines it a resource is gone when it was not seen for long by an API server that is ready.
func TestCatalog_takes_its_time_where_it_may_not_ask(t *testing.T) {
	s := &served{answers: map[string]string{"widgets.x.io": "403", "readyz": "503"}}
	c := newCatalog(t, s)
	c.aged(certainAfter)
	assert.False(t, c.Gone(t.Context(), widgetsOfX), "an API server that is not ready is believed")
	for _, ready := range []string{"200 ok", "403", ""} {
		s.set(false, map[string]string{"widgets.x.io": "403", "readyz": ready})
		assert.True(t, c.Gone(t.Context(), widgetsOfX), "readyz says %q: it is not gone", ready)
	}
	c.mu.Lock()
	c.seen.failed()
	c.mu.Unlock()
	assert.False(t, c.Gone(t.Context(), widgetsOfX), "it is gone where there is no answer")
}
