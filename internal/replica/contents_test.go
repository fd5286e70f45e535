// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/plan"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/replicatest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/selection"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/write"
)

// aNamespace tells a state of Namespace shop.
func aNamespace(op event.Op, uid string, version uint64) replicatest.Event {
	return replicatest.Event{
		Op: op, Name: "shop", UID: uid, Sequence: at(1, version),
		More: map[string]string{
			"source": "/clusters/east/api/v1/namespaces", "kind": "Namespace", "resource": "namespaces",
		},
		Data: `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop","uid":"` + uid + `"}}`,
	}
}

// A deletion of a Namespace deletes what is in it, whoever has made that.
func TestDelete_of_a_namespace_waits_until_only_what_ends_is_in_it(t *testing.T) {
	api := replicatest.NewAPI(t, replicatest.ConfigMaps, replicatest.Namespaces)
	var deletes atomic.Int64
	api.Refuse = func(r *http.Request) int {
		if r.Method == http.MethodDelete {
			deletes.Add(1)
		}
		return 0
	}
	g := newRig(t, func(c *Config) {
		c.Target = api.Config()
		c.Entries = append(c.Entries, selection.Entry{Resource: "namespaces", Rules: c.Entries[0].Rules})
	})
	g.reads()
	api.Put("namespaces", "", "shop", copyOf("namespaces/_/shop", "u1", at(1, 10)))
	api.Put("configmaps", "shop", "ours", copyOf("configmaps/shop/ours", uidOf("ours"), at(1, 10)))
	api.Put("configmaps", "shop", "theirs", nil)
	g.tell(is("ours", at(1, 10)), aNamespace(event.Updated, "u1", 10))
	g.shown(keys.Key{Namespace: "shop", Name: "ours"})
	id := g.shown(keys.Key{Resource: g.selection.All()[1].Number, Name: "shop"})

	again := &object{run: g.run, id: id, res: g.selection.All()[1]}
	g.tell(aNamespace(event.Updated, "u2", 11))
	again.row = g.table.Get(id)
	assert.Equal(t, plan.Change, again.decide(true).Do, "it was made again in the source")

	g.tell(aNamespace(event.Deleted, "u2", 12))
	for _, step := range []struct {
		before func()
		detail string
	}{
		{func() {}, "it has configmaps shop/"},
		{func() { api.Remove("configmaps", "shop", "theirs") }, "it has configmaps shop/ours; empty it, or delete it yourself"},
	} {
		step.before()
		require.Equal(t, waitsAWhile, g.reconcile(t.Context(), id))
		require.Equal(t, map[string]int{"not-empty": 1}, reasons(g))
		assert.Contains(t, g.parked.Oldest(1)[id].Detail, step.detail)
	}
	assert.Zero(t, deletes.Load())
	g.tell(ended("ours", at(1, 13)))
	g.reconcile(t.Context(), id)
	assert.Equal(t, int64(1), deletes.Load(), "all that is left ends with it")
}

// What others have put into a Namespace would go with it, so that one is not made again for a field that cannot change.
func TestRecreate_is_for_objects_that_nothing_goes_with(t *testing.T) {
	for name, c := range map[string]struct {
		event   replicatest.Event
		key     keys.Key
		deletes int64
	}{
		"a ConfigMap": {is("a", at(1, 10)), keys.Key{Namespace: "shop", Name: "a"}, 1},
		"a Namespace": {aNamespace(event.Updated, "u1", 10), keys.Key{Name: "shop"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var deletes atomic.Int64
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodDelete {
					deletes.Add(1)
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","uid":"u","resourceVersion":"1"}}`))
			}))
			t.Cleanup(api.Close)
			g := newRig(t, func(cfg *Config) {
				cfg.Target, cfg.Recreate = &rest.Config{Host: api.URL}, true
				cfg.Entries = append(cfg.Entries, selection.Entry{Resource: "namespaces", Rules: cfg.Entries[0].Rules})
			})
			g.tell(c.event)
			row, id, found := g.table.Find(c.key)
			require.True(t, found)
			row.Actual = keys.Actual{Owner: keys.Ours, UID: "uid-in-the-target", Version: "1"}
			o := &object{run: g.run, id: id, row: row, res: g.selection.At(row.Resource)}
			wanted := map[string]any{"metadata": map[string]any{"name": c.key.Name}}
			o.refused(t.Context(), plan.Change, write.Answer{Outcome: write.Invalid}, wanted)
			assert.Equal(t, c.deletes, deletes.Load())
		})
	}
}
