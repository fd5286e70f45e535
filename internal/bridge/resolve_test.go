// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/stretchr/testify/assert"
)

func TestResolve_asks_ever_less_often_for_what_is_not_there(t *testing.T) {
	for _, c := range []struct{ before, absent, want time.Duration }{
		{250 * time.Millisecond, 0, 500 * time.Millisecond},
		{2 * time.Second, 4 * time.Second, 4 * time.Second},
		{4 * time.Second, 8 * time.Second, 5 * time.Second},
		{5 * time.Second, 49 * time.Second, 5 * time.Second},
		{5 * time.Second, 2 * time.Minute, 12 * time.Second},
		{12 * time.Second, time.Hour, 30 * time.Second},
		{30 * time.Second, 0, 5 * time.Second},
	} {
		assert.Equal(t, c.want, askAgain(c.before, c.absent), "after %v, %v", c.before, c.absent)
	}
}

// What the API server says for certain is asked for ever less often; what it does not answer is not.
func TestResolve_takes_for_absent_what_cannot_be_read(t *testing.T) {
	api := newAPIServer(t, 10)
	verbs, status := atomic.Pointer[string]{}, atomic.Int64{}
	api.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(status.Load()))
		switch r.URL.Path {
		case "/api":
			_, _ = io.WriteString(w, `{"kind":"APIVersions","versions":["v1"]}`)
		case "/apis":
			_, _ = io.WriteString(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
		default:
			_, _ = io.WriteString(w, `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"bindings","namespaced":true,"kind":"Binding","verbs":[`+*verbs.Load()+`]}]}`)
		}
	})
	discovery := must.Get(source.NewDiscovery(&rest.Config{Host: api.URL}))(t)
	p := &session{cfg: &Config{Discovery: discovery}}
	for _, c := range []struct {
		resource, verbs string
		status          int64
		known, absent   bool
	}{
		{"bindings", `"create"`, 200, false, true},
		{"bindings", `"get","list"`, 200, false, true},
		{"things", `"list","watch"`, 200, false, true},
		{"bindings", `"list","watch"`, 200, true, false},
		{"bindings", `"list","watch"`, 503, false, false},
	} {
		verbs.Store(&c.verbs)
		status.Store(c.status)
		discovery.Reset()
		_, err := p.readable(&StreamSpec{Resource: c.resource})
		if (err == nil) != c.known || absent(err) != c.absent {
			t.Errorf("%s with %s, status %d: %v, absent %v", c.resource, c.verbs, c.status, err, absent(err))
		}
	}
}

func TestResolve_asks_at_once_when_something_else_is_served(t *testing.T) {
	must.Prompt(t, "resolving", 3*time.Second, func() time.Duration { return resolving(t) })
}

// resolving is how long a bridge takes to read what has just been served. It would ask again in four seconds.
func resolving(t *testing.T) time.Duration {
	t.Helper()
	api := newAPIServer(t, 10)
	var served atomic.Bool
	var asked atomic.Int32
	all := api.Config.Handler
	api.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1" || served.Load() {
			all.ServeHTTP(w, r)
			return
		}
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"APIResourceList","groupVersion":"v1","resources":[]}`)
	})
	at := &rest.Config{Host: api.URL}
	client := must.Get(source.NewClient(at))(t)
	defer client.CloseIdleConnections()
	catalog := must.Get(source.NewCatalog(at, client, source.CatalogConfig{}))(t)
	must.Get(catalog.Look(t.Context()))(t)
	b := runBridge(t, api, newFakeLog(), &memoryStore{}, func(c *Config) { c.Catalog = catalog })
	waitFor(t, "the fourth question", func() bool { return asked.Load() >= 5 }) // one was the catalog's
	served.Store(true)
	began := time.Now()
	must.Get(catalog.Look(t.Context()))(t)
	b.only(t)
	return time.Since(began)
}
