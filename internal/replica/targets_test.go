// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/guard"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/listing"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/replicatest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/resyncs"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/waiting"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// An etcd that was restored with a version bump lists at a version that is far ahead, and has objects as they were.
func TestFeed_notices_a_list_whose_objects_went_back(t *testing.T) {
	for name, test := range map[string]struct {
		object, list string
		rewound      bool
	}{
		"as it was known":                       {"10", "12", false},
		"a list before the last known write":    {"8", "9", false},
		"a list behind it, with an older state": {"8", "1000000000", true},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, nil)
			g.tell(is("a", at(1, 7)))
			g.has("a", at(1, 7))
			f := &feed{run: g.run, res: g.selection.All()[0], listed: func() {}}
			require.NoError(t, f.Note(t.Context(), source.Progress{Kind: source.Gap, Version: test.list}))
			f.Deliver(delivered("a", test.object))
			err := f.Note(t.Context(), source.Progress{Kind: source.Listed, Version: test.list})
			var rewound *source.RewoundError
			assert.Equal(t, test.rewound, errors.As(err, &rewound), err)
		})
	}
}

// delivered is what a watch tells of an object of the replica.
func delivered(name, version string) source.Change {
	return source.Change{
		Op: source.Added, Ident: source.Ident{Namespace: "shop", Name: name, UID: uidOf(name)},
		Body: source.NewBody(fmt.Appendf(nil, `{"metadata":{"name":%[1]q,"namespace":"shop","uid":%[2]q,"resourceVersion":%[3]q,`+
			`"labels":{%[4]q:"r"},"annotations":{%[5]q:"east/core/configmaps/shop/%[1]s"}}}`, name, uidOf(name), version,
			clean.Label, clean.Origin)),
	}
}

// A backup or an etcd that is restored brings back what the replica has deleted, and forgotten. The log tells its end.
func TestFeed_ends_the_run_where_what_was_forgotten_comes_back(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil)
		g.tell(ended("a", at(1, 7)))
		g.synced()
		f := &feed{run: g.run, res: g.selection.All()[0], listed: func() {}}
		_, id, _ := g.table.Find(keys.Key{Namespace: "shop", Name: "a"})
		require.Equal(t, settled, g.reconcile(t.Context(), id))
		f.Deliver(delivered("never-told", "11"))
		require.Empty(t, g.failed, "nothing was forgotten")

		ctx, stop := context.WithTimeout(t.Context(), guard.Window+3*g.cfg.Remember)
		defer stop()
		g.keep(ctx)
		_, _, found := g.table.Find(keys.Key{Namespace: "shop", Name: "a"})
		require.False(t, found)
		g.tell(is("new", at(1, 8)))
		f.Deliver(delivered("new", "12"))
		require.Empty(t, g.failed, "the log has it")
		f.Deliver(delivered("never-told", "13"))
		require.Empty(t, g.failed, "it was there before")
		f.Deliver(delivered("a", "14"))
		require.ErrorIs(t, <-g.failed, errForgotten)
		assert.True(t, New(Config{}).again(errForgotten))
	})
}

// reads has the target of a rig be an API server, and lets it be read until the test ends.
func (g *rig) reads() {
	g.t.Helper()
	g.run.targets.reading.Go(func() { _ = g.targets.catalog.Run(g.t.Context()) })
	rigged := func() bool { offers, _ := g.targets.catalog.Now(); return offers != nil }
	require.Eventually(g.t, rigged, time.Minute, time.Millisecond)
}

func targeting(api *replicatest.API) func(*Config) {
	return func(c *Config) { c.Target = api.Config() }
}

// copyOf is what an object of the target has that replica r has written. Origin ends in resource, namespace and name.
func copyOf(origin, uid string, applied sequence.Sequence) map[string]any {
	return map[string]any{
		"labels": map[string]string{clean.Label: "r"},
		"annotations": map[string]string{
			clean.Origin: "east/core/" + origin, clean.OriginUID: uid, clean.OriginSequence: applied.String(),
		},
	}
}

// shown waits until the target has shown an object of the replica.
func (g *rig) shown(key keys.Key) (id keys.ID) {
	g.t.Helper()
	require.Eventually(g.t, func() bool {
		var row keys.Row
		row, id, _ = g.table.Find(key)
		return row.Actual.Owner == keys.Ours && g.targets.state(g.selection.At(key.Resource), key) == listing.Listed
	}, time.Minute, time.Millisecond)
	return id
}

// A replica of some namespaces may be permitted to read these only.
func TestWithin_lists_the_namespaces_that_are_read(t *testing.T) {
	api := replicatest.NewAPI(t, replicatest.ConfigMaps)
	api.Refuse = func(r *http.Request) int {
		if strings.HasSuffix(r.URL.Path, "/configmaps") && !strings.Contains(r.URL.Path, "/namespaces/shop/") {
			return http.StatusForbidden
		}
		return 0
	}
	api.Put("configmaps", "shop", "a", nil)
	g := newRig(t, targeting(api))
	g.reads()
	g.tell(is("a", at(1, 10)))
	for _, sc := range []resyncs.Scope{{LabelSelector: "app=x"}, {LabelSelector: "app=x", Namespace: "shop"}} {
		within, err := g.targets.within(t.Context(), g.selection.All()[0], "shop", sc)
		require.NoError(t, err)
		assert.True(t, within(keys.Key{Namespace: "shop", Name: "a"}))
		assert.False(t, within(keys.Key{Namespace: "shop", Name: "b"}))
	}
	within, err := g.targets.within(t.Context(), g.selection.All()[0], "shop", resyncs.Scope{LabelSelector: "app=x", Namespace: "other"})
	require.NoError(t, err, "nothing of it is read")
	assert.False(t, within(keys.Key{Namespace: "shop", Name: "a"}))
}

// A role binding of one namespace is missing.
func TestTargets_read_other_namespaces_where_one_may_not_be_listed(t *testing.T) {
	api := replicatest.NewAPI(t, replicatest.ConfigMaps)
	var refused atomic.Bool
	refused.Store(true)
	api.Refuse = func(r *http.Request) int {
		if refused.Load() && strings.Contains(r.URL.Path, "/namespaces/bank/") {
			return http.StatusForbidden
		}
		return 0
	}
	for _, namespace := range []string{"bank", "shop"} {
		api.Put("configmaps", namespace, "left", copyOf("configmaps/"+namespace+"/left", uidOf("left"), at(1, 9)))
	}
	g := newRig(t, func(c *Config) { targeting(api)(c); ofTwo(t)(c) })
	g.reads()
	bank := is("told", at(1, 10))
	bank.Namespace = "bank"
	g.tell(marker(event.ResyncStarted, 0), is("told", at(1, 10)), bank, marker(event.ResyncCompleted, 0))
	g.catchUp(t.Context())
	claim := func(namespace string) keys.Claim {
		row, _, _ := g.table.Find(keys.Key{Namespace: namespace, Name: "left"})
		return row.Desired.Claim
	}
	require.Eventually(t, func() bool { return claim("shop") == keys.Gone }, time.Minute, time.Millisecond, "it is pruned")
	require.Eventually(t, func() bool { return !g.targets.listing.Busy() }, time.Minute, time.Millisecond, "deletes go on")
	_, id, _ := g.table.Find(keys.Key{Namespace: "shop", Name: "told"})
	require.NotEqual(t, waits, g.reconcile(t.Context(), id))
	_, id, _ = g.table.Find(keys.Key{Namespace: "bank", Name: "told"})
	require.Equal(t, waits, g.reconcile(t.Context(), id))

	refused.Store(false)
	require.Eventually(t, func() bool { return claim("bank") == keys.Gone }, time.Minute, time.Millisecond)
}

func TestWithin_tells_what_is_in_the_way(t *testing.T) {
	api := replicatest.NewAPI(t, replicatest.ConfigMaps)
	var code atomic.Int64
	code.Store(http.StatusBadRequest)
	api.Refuse = func(r *http.Request) int {
		if strings.HasSuffix(r.URL.Path, "/configmaps") {
			return int(code.Load())
		}
		return 0
	}
	g := newRig(t, targeting(api))
	g.reads()
	g.tell(is("a", at(1, 10)))
	listed := make(chan error, 1)
	go func() {
		_, err := g.targets.within(t.Context(), g.selection.All()[0], "shop", resyncs.Scope{LabelSelector: "app=x"})
		listed <- err
	}()
	problem := func() error { return g.health.Now()["configmaps.v1/shop, to prune"].Err }
	require.Eventually(t, func() bool { return strings.Contains(fmt.Sprint(problem()), "refused with 400") }, time.Minute,
		time.Millisecond)
	code.Store(0)
	require.NoError(t, <-listed)
	assert.NoError(t, problem())

	code.Store(http.StatusBadRequest)
	g.compares = true
	_, err := g.targets.within(t.Context(), g.selection.All()[0], "shop", resyncs.Scope{LabelSelector: "app=x"})
	assert.ErrorContains(t, err, "refused with 400", "a comparison ends")
}

// A proxy, or an API server whose etcd was restored below it, keeps watches open that tell nothing.
func TestRead_notices_that_the_target_went_back_while_watches_are_open(t *testing.T) {
	api := replicatest.NewAPI(t, replicatest.ConfigMaps)
	var asked atomic.Int64
	api.Refuse = func(r *http.Request) int {
		if strings.Contains(r.URL.Path, "/namespaces/bank/") {
			return http.StatusForbidden // another namespace is asked for
		}
		if r.URL.Query().Get("limit") == "1" && r.URL.Query().Get("labelSelector") == "" {
			asked.Add(1)
		}
		return 0
	}
	g := newRig(t, func(c *Config) { targeting(api)(c); ofTwo(t)(c) })
	g.reads()
	g.targets.askEvery = time.Millisecond
	g.tell(is("a", at(1, 10)))
	require.Eventually(t, func() bool { return asked.Load() > 1 }, time.Minute, time.Millisecond)
	api.GoBack(50)
	select {
	case err := <-g.failed:
		assert.ErrorIs(t, err, errRewound)
	case <-time.After(time.Minute):
		t.Fatal("nothing is noticed")
	}
}

// A CustomResourceDefinition ends on both sides.
func TestReconcile_does_not_wait_for_the_resource_of_what_is_gone(t *testing.T) {
	g := newRig(t, nil)
	g.tell(is("a", at(1, 6)))
	g.targets.listing.SetUnserved(0)
	_, id, _ := g.table.Find(keys.Key{Namespace: "shop", Name: "a"})
	g.reconcile(t.Context(), id)
	require.Equal(t, map[string]int{"no-resource": 1}, reasons(g))
	g.tell(ended("a", at(1, 7)))
	assert.Equal(t, settled, g.reconcile(t.Context(), id))
	assert.Empty(t, reasons(g))
}

// An object that goes with its definition or its namespace is not changed back by anybody.
func TestContests_do_not_count_what_goes_with_its_definition_or_namespace(t *testing.T) {
	for name, wait := range map[string]func(g *rig, id keys.ID){
		"definition": func(g *rig, id keys.ID) {
			g.targets.listing.SetUnserved(0)
			g.reconcile(t.Context(), id)
		},
		"namespace": func(g *rig, id keys.ID) {
			o := &object{run: g.run, id: id, row: g.table.Get(id), res: g.selection.All()[0]}
			o.parkAWhile(waiting.NoNamespace, "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, nil)
			g.tell(is("a", at(1, 6)))
			_, id, _ := g.table.Find(keys.Key{Namespace: "shop", Name: "a"})
			for range 3 {
				g.contests.Add(id, time.Now())
			}
			require.True(t, g.contests.Has(id, time.Now()))
			wait(g, id)
			assert.False(t, g.contests.Has(id, time.Now()))
		})
	}
}

// What has no place in the target is told as left out, once it is known what the target has.
func TestTargets_look_at_what_has_no_place(t *testing.T) {
	g := newRig(t, func(c *Config) {
		c.Entries[0].Namespaces = nil
		c.Entries[0].Rules = must.Get(clean.New(clean.Config{Replica: "r", Namespaces: map[string]string{"shop": "shop-copy"}}))(t)
	})
	g.catchUp(t.Context())
	e := is("a", at(1, 10))
	e.Namespace = "shop-copy"
	g.tell(e)
	id, _ := g.queue.Get()
	require.Equal(t, waits, g.reconcile(t.Context(), id))
	g.queue.Done(id)
	g.targets.listing.Begin(0, "v1", []string{""})
	g.lists("")
	id, _ = g.queue.Get()
	g.reconcile(t.Context(), id)
	assert.NotEmpty(t, reasons(g))
}

// A resource is cluster-scoped in the source, and in namespaces in the target.
func TestTargets_do_not_wait_for_a_stream_that_there_is_not(t *testing.T) {
	g := newRig(t, nil)
	e := is("a", at(1, 10))
	e.Namespace = ""
	g.tell(e)
	id, _ := g.queue.Get()
	require.Equal(t, waits, g.reconcile(t.Context(), id))
	g.queue.Done(id)
	g.targets.listing.Begin(0, "v1", []string{"shop"})
	g.lists("shop")
	id, _ = g.queue.Get()
	assert.NotEqual(t, waits, g.reconcile(t.Context(), id))
}

// One namespace shows that the source was rebuilt.
func TestTargets_wait_for_the_first_list_of_each_namespace(t *testing.T) {
	g := newRig(t, ofTwo(t))
	old := is("old", at(7, 5))
	old.Namespace = "bank"
	g.tell(is("new", at(7, 10)), old, replicatest.Event{Op: event.Gap, Data: `{"cause":"rebuilt","epoch":7}`})
	g.catchUp(t.Context())
	g.targets.listing.Begin(0, "v1", []string{"bank", "shop"})
	g.lists("shop")
	_, id, _ := g.table.Find(keys.Key{Namespace: "shop", Name: "new"})
	require.Equal(t, waits, g.reconcile(t.Context(), id))
	require.False(t, g.deletes.Held())
	g.hasIn("bank", "old", at(1, 5))
	g.lists("bank")
	require.Equal(t, waits, g.reconcile(t.Context(), id))
	assert.NotZero(t, g.epochs.Holds())
}

func TestTargets_look_at_what_is_listed_later(t *testing.T) {
	g := newRig(t, ofTwo(t))
	e := is("a", at(1, 10))
	e.Namespace = "bank"
	g.tell(e)
	g.targets.listing.Begin(0, "v1", []string{"bank", "shop"})
	g.targets.listing.SetFailing(0, "bank", true)
	for _, list := range []struct {
		namespace string
		waits     bool
	}{{"shop", true}, {"bank", false}} {
		g.lists(list.namespace)
		id, _ := g.queue.Get()
		assert.Equal(t, list.waits, g.reconcile(t.Context(), id) == waits)
		g.queue.Done(id)
	}
}
