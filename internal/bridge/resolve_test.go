// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/source"
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
		if got := askAgain(c.before, c.absent); got != c.want {
			t.Errorf("after %v, %v: %v, want %v", c.before, c.absent, got, c.want)
		}
	}
}

func TestResolve_asks_at_once_when_something_else_is_served(t *testing.T) {
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
	client, err := source.NewClient(at)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	catalog, err := source.NewCatalog(at, client, source.CatalogConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := catalog.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := runBridge(t, api, newFakeLog(), &memoryStore{}, func(c *Config) { c.Catalog = catalog })
	waitFor(t, "the fourth question", func() bool { return asked.Load() >= 5 }) // one was the catalog's; the next comes in four seconds
	served.Store(true)
	began := time.Now()
	if _, err := catalog.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.only(t)
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("it took %v", took)
	}
}
