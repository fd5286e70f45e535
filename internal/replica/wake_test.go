// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/plan"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/replicatest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/waiting"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// wakes has a rig's keys woken until the test ends. Unless it also reads, no key is looked at for another reason.
func (g *rig) wakes() {
	g.t.Helper()
	g.run.targets.reading.Go(func() { _ = g.namespaces.Run(g.t.Context()) })
	g.run.targets.reading.Go(func() { g.wake(g.t.Context()) })
	require.Eventually(g.t, func() bool { _, _, err := g.namespaces.Now(); return err == nil }, time.Minute, time.Millisecond)
}

// idle takes all keys out of the queue.
func (g *rig) idle() {
	for g.queue.Len() > 0 {
		id, _ := g.queue.Get()
		g.queue.Done(id)
	}
}

// woken waits until a key is to be looked at.
func (g *rig) woken(why string) {
	g.t.Helper()
	require.Eventually(g.t, func() bool { return g.queue.Len() > 0 }, time.Minute, time.Millisecond, why)
	g.idle()
}

func TestWake_looks_again_when_a_namespace_comes(t *testing.T) {
	api := replicatest.NewAPI(t, replicatest.ConfigMaps, replicatest.Namespaces)
	g := newRig(t, targeting(api))
	g.wakes()
	g.tell(is("a", at(1, 10)))
	g.idle()
	assert.Equal(t, waitsAWhile, g.object().parkAWhile(waiting.NoNamespace, ""))
	api.Put("namespaces", "", "other", nil)
	g.owners <- struct{}{} // which pauses
	api.Put("namespaces", "", "shop", nil)
	g.woken("the namespace is there")
	assert.Equal(t, later, g.object().parkAWhile(waiting.NoNamespace, ""), "it has come before the object was parked")
}

func TestWake_does_not_look_at_all_that_waits_for_other_namespaces(t *testing.T) {
	api := replicatest.NewAPI(t, replicatest.ConfigMaps, replicatest.Namespaces)
	g := newRig(t, targeting(api))
	g.wakes()
	g.tell(is("a", at(1, 10)))
	g.idle()
	g.object().parkAWhile(waiting.NoNamespace, "")
	api.Put("namespaces", "", "other", nil)
	require.Eventually(t, func() bool { _, known, _ := g.namespaces.Get("other"); return known }, time.Minute,
		time.Millisecond)
	g.owners <- struct{}{}
	require.Eventually(t, func() bool { return len(g.owners) == 0 }, time.Minute, time.Millisecond, "what came before is done")
	assert.Zero(t, g.queue.Len())
}

func TestWake_looks_again_when_a_resource_is_served(t *testing.T) {
	api := replicatest.NewAPI(t, replicatest.ConfigMaps, replicatest.Namespaces, replicatest.Definitions)
	g := newRig(t, targeting(api))
	g.reads()
	g.wakes()
	g.parked.Put(g.has("a", at(1, 10)), waiting.NoResource, "", time.Now())
	api.Serve(replicatest.Kind{Group: "example.com", Resource: "widgets", Kind: "Widget"})
	api.Put("customresourcedefinitions", "", "widgets.example.com", nil)
	g.woken("another resource is served")
}

// A definition that is made again at once changes nothing that the target says to have.
func TestWake_looks_again_when_a_resource_was_listed_again(t *testing.T) {
	g := newRig(t, nil)
	g.tell(is("a", at(1, 10)))
	g.idle()
	g.object().park(waiting.NoResource, "")
	f := &feed{run: g.run, res: g.selection.All()[0], listed: func() {}}
	require.NoError(t, f.Note(t.Context(), source.Progress{Kind: source.Gap, Version: "10"}))
	require.NoError(t, f.Note(t.Context(), source.Progress{Kind: source.Listed, Version: "10"}))
	g.woken("it is served, as it was listed")
}

func TestWake_looks_again_when_an_owner_comes(t *testing.T) {
	api := replicatest.NewAPI(t, replicatest.ConfigMaps, replicatest.Namespaces)
	rules := must.Get(clean.New(clean.Config{Replica: "r", Selected: []string{"shop"}, Owned: clean.Remap}))(t)
	g := newRig(t, func(c *Config) {
		c.Target = api.Config()
		c.Entries[0].Rules = rules
	})
	g.wakes()
	child := is("a", at(1, 10))
	child.Data = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"shop","uid":"` + uidOf("a") +
		`","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"` + uidOf("owner") + `"}]}}`
	g.tell(child)
	g.idle()
	wanted, _, res := g.object().desired(t.Context())
	require.Nil(t, wanted)
	require.Equal(t, waits, res)
	require.Equal(t, map[string]int{"no-owner": 1}, reasons(g))

	g.tell(is("owner", at(1, 11)))
	id := g.has("owner", at(1, 11))
	g.idle()
	o := &object{run: g.run, id: id, row: g.table.Get(id), res: g.selection.All()[0]}
	o.settle()
	g.woken("the owner is there")
	wanted, _, _ = g.object().desired(t.Context())
	assert.NotNil(t, wanted)
	owner := map[string]any{"name": "owner", "uid": uidOf("owner")}
	refers := map[string]any{"metadata": map[string]any{"ownerReferences": []any{owner}}}
	assert.Equal(t, later, g.object().parkForOwner(refers, ""), "it has come before the object was parked")
}

func reasons(g *rig) map[string]int {
	all := make(map[string]int)
	for why, n := range g.parked.ByReason() {
		all[string(why)] = n
	}
	return all
}

// An object of somebody else goes while the API server fails: what is in the way is another thing then.
func TestParkAWhile_has_an_object_looked_at_soon_where_it_waits_for_something_else(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil)
		g.tell(is("a", at(1, 10)))
		g.idle()
		looks := func(why plan.Reason, within time.Duration) int {
			o := g.object()
			require.Equal(t, waitsAWhile, o.parkAWhile(why, ""))
			g.queue.AddAfter(o.id, waiting.Look)
			time.Sleep(within) //nolint:forbidigo // it is the time of a bubble
			synctest.Wait()
			defer g.idle()
			return g.queue.Len()
		}
		for range 8 {
			require.Equal(t, 1, looks(waiting.Exists, 10*time.Minute))
		}
		assert.Equal(t, 0, looks(waiting.Exists, time.Minute))
		assert.Equal(t, 1, looks(waiting.Failed, 5*time.Second))
	})
}
