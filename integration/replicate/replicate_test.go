// SPDX-License-Identifier: Apache-2.0

// Package replicate tests replicas on two real control planes, with a real bridge and a real log between them.
package replicate

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/guard"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/plan"
)

func TestReplica_keeps_a_namespace_as_it_is_in_the_source(t *testing.T) {
	c := newClusters(t, "[{resource: configmaps}]")
	ctx := t.Context()
	namespace(t, c.from, "shop")
	namespace(t, c.to, "copy")
	maps := c.from.CoreV1().ConfigMaps("shop")
	for _, name := range []string{"a", "b", "c"} {
		_, err := maps.Create(ctx, configMap(name, "1"), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	rules := clean.Config{Namespaces: map[string]string{"shop": "copy"}}
	cfg := c.replicaConfig("shop", c.entry("", "configmaps", rules, "shop"))
	cfg.Force = true
	r, stop := c.replicate(cfg)
	awaitValues(t, c.to, "copy", "a=1 b=1 c=1")

	_, err := maps.Patch(ctx, "a", types.MergePatchType, []byte(`{"data":{"value":"2"}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.NoError(t, maps.Delete(ctx, "b", metav1.DeleteOptions{}))
	awaitValues(t, c.to, "copy", "a=2 c=1")
	got, err := c.to.CoreV1().ConfigMaps("copy").Get(ctx, "a", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, "shop", got.Labels[clean.Label])
	assert.Equal(t, "east/core/configmaps/shop/a", got.Annotations[clean.Origin])

	// Somebody edits the copy.
	_, err = c.to.CoreV1().ConfigMaps("copy").Patch(ctx, "c", types.MergePatchType, []byte(`{"data":{"value":"edited"}}`),
		metav1.PatchOptions{})
	require.NoError(t, err)
	awaitValues(t, c.to, "copy", "a=2 c=1")
	require.NoError(t, c.to.CoreV1().ConfigMaps("copy").Delete(ctx, "c", metav1.DeleteOptions{}))
	awaitValues(t, c.to, "copy", "a=2 c=1")

	// What happens while it does not run.
	settled(t, r)
	stop()
	require.NoError(t, maps.Delete(ctx, "a", metav1.DeleteOptions{}))
	_, err = maps.Create(ctx, configMap("d", "1"), metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = c.to.CoreV1().ConfigMaps("copy").Patch(ctx, "c", types.MergePatchType, []byte(`{"data":{"value":"edited"}}`),
		metav1.PatchOptions{})
	require.NoError(t, err)
	again, _ := c.replicate(cfg)
	awaitValues(t, c.to, "copy", "c=1 d=1")
	settled(t, again)
	status, _ := again.Status()
	assert.Equal(t, 2, status.Objects)
	assert.Empty(t, status.Parked)
}

// TestReplica_rules runs what needs no clusters of its own.
func TestReplica_rules(t *testing.T) {
	c := newClusters(t, `[{resource: configmaps}, {resource: "*.example.com"}]`)
	for name, test := range map[string]func(*clusters, string){
		"fields of others are left":              yields,
		"an object of others is left":            refuses,
		"an object of others is adopted":         adopts,
		"an object of others is overwritten":     overwrites,
		"a namespace that is missing is awaited": namespaceMissing,
		"what is detached is never deleted":      detached,
		"deletes above the limit are held":       heldDeletes,
		"a complete resync prunes":               prunes,
		"who changes back again and again wins":  contested,
	} {
		t.Run(name, func(t *testing.T) {
			test(c.in(t), strings.ReplaceAll(strings.ToLower(name[:8]), " ", "-")+fmt.Sprint(len(name)))
		})
	}
}

// both makes a namespace in both clusters.
func (c *clusters) both(ns string) {
	c.t.Helper()
	namespace(c.t, c.from, ns)
	namespace(c.t, c.to, ns)
}

// configMaps replicates the ConfigMaps of a namespace.
func (c *clusters) configMaps(ns string, change func(*replica.Config)) (*replica.Replica, func()) {
	c.t.Helper()
	cfg := c.replicaConfig(ns, c.entry("", "configmaps", clean.Config{}, ns))
	if change != nil {
		change(&cfg)
	}
	return c.replicate(cfg)
}

func yields(c *clusters, ns string) {
	c.both(ns)
	create(c.t, c.from, ns, "a=1")
	r, stop := c.configMaps(ns, nil)
	awaitValues(c.t, c.to, ns, "a=1")
	create(c.t, c.to, ns, "a=theirs")
	parked(c.t, r, "conflict", 1)
	_, err := c.from.CoreV1().ConfigMaps(ns).Patch(c.t.Context(), "a", types.MergePatchType,
		[]byte(`{"data":{"value":"2","other":"x"}}`), metav1.PatchOptions{})
	require.NoError(c.t, err)
	rig.Poll(c.t, "the field that no other manager owns", func() (bool, string) {
		got, err := c.to.CoreV1().ConfigMaps(ns).Get(c.t.Context(), "a", metav1.GetOptions{})
		return err == nil && got.Data["other"] == "x" && got.Data["value"] == "theirs", fmt.Sprint(got.Data, err)
	})
	stop()
	r, _ = c.configMaps(ns, nil)
	parked(c.t, r, "conflict", 1)
	assert.Contains(c.t, r.Waiting(1)[0].Detail, "other managers have .data.value")
	create(c.t, c.to, ns, "a=2")
	parked(c.t, r, "conflict", 0)
}

func refuses(c *clusters, ns string) {
	c.both(ns)
	create(c.t, c.from, ns, "a=1", "b=1")
	create(c.t, c.to, ns, "a=theirs")
	r, _ := c.configMaps(ns, nil)
	awaitValues(c.t, c.to, ns, "a=theirs b=1")
	parked(c.t, r, "exists", 1)
	remove(c.t, c.from, ns, "a")
	settled(c.t, r)
	create(c.t, c.from, ns, "b=2")
	awaitValues(c.t, c.to, ns, "a=theirs b=2")
}

func adopts(c *clusters, ns string) {
	c.both(ns)
	create(c.t, c.from, ns, "a=1")
	create(c.t, c.to, ns, "a=theirs")
	uid := must.Get(c.to.CoreV1().ConfigMaps(ns).Get(c.t.Context(), "a", metav1.GetOptions{}))(c.t).UID
	c.configMaps(ns, func(cfg *replica.Config) { cfg.Existing, cfg.Force = plan.Adopt, true })
	awaitValues(c.t, c.to, ns, "a=1")
	assert.Equal(c.t, uid, must.Get(c.to.CoreV1().ConfigMaps(ns).Get(c.t.Context(), "a", metav1.GetOptions{}))(c.t).UID)
}

func overwrites(c *clusters, ns string) {
	c.both(ns)
	create(c.t, c.from, ns, "a=1")
	create(c.t, c.to, ns, "a=theirs", "b=1")
	_, err := c.to.CoreV1().ConfigMaps(ns).Patch(c.t.Context(), "a", types.MergePatchType,
		[]byte(`{"data":{"more":"x"}}`), metav1.PatchOptions{})
	require.NoError(c.t, err)
	create(c.t, c.from, ns, "b=1")
	states := must.Get(c.to.CoreV1().ConfigMaps(ns).Watch(c.t.Context(), metav1.SingleObject(metav1.ObjectMeta{
		Name: "a", ResourceVersion: "0",
	})))(c.t)
	defer states.Stop()
	r, _ := c.configMaps(ns, func(cfg *replica.Config) { cfg.Existing = plan.Overwrite })
	awaitValues(c.t, c.to, ns, "a=1 b=1")
	// A process that dies between the two writes leaves an object of others. Its successor begins again.
	assert.Equal(c.t, []string{"theirs ", "1 ", "1 " + r.Name()}, statesUntilLabelled(c.t, states))
	assert.NotContains(c.t, must.Get(c.to.CoreV1().ConfigMaps(ns).Get(c.t.Context(), "a", metav1.GetOptions{}))(c.t).Data,
		"more")
	create(c.t, c.from, ns, "a=2", "b=2")
	awaitValues(c.t, c.to, ns, "a=2 b=2") // b had the right value before, and another manager
	_, err = c.from.CoreV1().ConfigMaps(ns).Patch(c.t.Context(), "b", types.MergePatchType, []byte(`{"data":null}`),
		metav1.PatchOptions{})
	require.NoError(c.t, err)
	awaitValues(c.t, c.to, ns, "a=2 b=")
	settled(c.t, r)
}

// statesUntilLabelled returns value and label of a ConfigMap, as a watch shows them one after the other.
func statesUntilLabelled(t *testing.T, w watch.Interface) (all []string) {
	t.Helper()
	for ctx, label := must.Within(t, time.Minute), ""; label == ""; {
		select {
		case e := <-w.ResultChan():
			o, is := e.Object.(*corev1.ConfigMap)
			require.True(t, is, "%+v", e)
			label = o.Labels[clean.Label]
			all = append(all, o.Data["value"]+" "+label)
		case <-ctx.Done():
			t.Fatal("the watch has shown only: ", all)
		}
	}
	return slices.Compact(all)
}

func namespaceMissing(c *clusters, ns string) {
	namespace(c.t, c.from, ns)
	create(c.t, c.from, ns, "a=1", "b=1")
	r, _ := c.configMaps(ns, nil)
	parked(c.t, r, "no-namespace", 2)
	namespace(c.t, c.to, ns)
	awaitValues(c.t, c.to, ns, "a=1 b=1")
	parked(c.t, r, "no-namespace", 0)
}

func detached(c *clusters, ns string) {
	c.both(ns)
	create(c.t, c.from, ns, "a=1", "b=1")
	r, _ := c.configMaps(ns, nil)
	awaitValues(c.t, c.to, ns, "a=1 b=1")
	settled(c.t, r)
	for name, patch := range map[string]string{
		"a": `{"metadata":{"labels":{"kube-eventbridge.io/replica":null}}}`,
		"b": `{"metadata":{"annotations":{"kube-eventbridge.io/origin":null}}}`,
	} {
		_, err := c.to.CoreV1().ConfigMaps(ns).Patch(c.t.Context(), name, types.MergePatchType, []byte(patch),
			metav1.PatchOptions{})
		require.NoError(c.t, err)
	}
	parked(c.t, r, "detached", 2)
	create(c.t, c.from, ns, "a=2", "b=2")
	parked(c.t, r, "detached", 2)
	remove(c.t, c.from, ns, "a", "b")
	settled(c.t, r)
	awaitValues(c.t, c.to, ns, "a=1 b=1")
}

func heldDeletes(c *clusters, ns string) {
	c.both(ns)
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprintf("c%02d", i))
		create(c.t, c.from, ns, names[i]+"=1")
	}
	limited := func(cfg *replica.Config) { cfg.Limit = guard.Limit{Count: 3} }
	r, stop := c.configMaps(ns, limited)
	all := func(n int) {
		rig.Poll(c.t, fmt.Sprint(n, " objects"), func() (bool, string) {
			got := values(c.t, c.to, ns)
			return strings.Count(got, "=") == n, got
		})
	}
	all(20)
	settled(c.t, r)
	stop()
	remove(c.t, c.from, ns, names[:10]...)
	c.logged(names[9], "deleted")
	r, stop = c.configMaps(ns, limited)
	parked(c.t, r, "held", 10)
	stop()
	r, stop = c.configMaps(ns, limited)
	parked(c.t, r, "held", 10)
	create(c.t, c.from, ns, names[0]+"=2")
	parked(c.t, r, "held", 9)
	require.NoError(c.t, r.Resume(c.t.Context()))
	all(11)
	stop()
	r, _ = c.configMaps(ns, limited)
	settled(c.t, r)
	remove(c.t, c.from, ns, names[10:12]...)
	all(9)
	remove(c.t, c.from, ns, names[12:]...)
	rig.Poll(c.t, "held deletes", func() (bool, string) {
		s, _ := r.Status()
		return s.HeldDeletes && s.Pending == 0, fmt.Sprintf("%+v", s)
	})
}

func prunes(c *clusters, ns string) {
	c.both(ns)
	create(c.t, c.from, ns, "a=1", "b=1")
	r, stop := c.configMaps(ns, nil)
	awaitValues(c.t, c.to, ns, "a=1 b=1")
	settled(c.t, r)
	stop()
	// An object of ours that the log never had: its end was lost.
	left := must.Get(c.to.CoreV1().ConfigMaps(ns).Get(c.t.Context(), "a", metav1.GetOptions{}))(c.t)
	left.ObjectMeta = metav1.ObjectMeta{Name: "left", Labels: left.Labels, Annotations: map[string]string{
		clean.Origin: "east/core/configmaps/" + ns + "/left", clean.OriginUID: "u",
		clean.OriginSequence: left.Annotations[clean.OriginSequence],
	}}
	_, err := c.to.CoreV1().ConfigMaps(ns).Create(c.t.Context(), left, metav1.CreateOptions{})
	require.NoError(c.t, err)
	r, _ = c.configMaps(ns, nil)
	settled(c.t, r)
	awaitValues(c.t, c.to, ns, "a=1 b=1 left=1")
	code, out := c.command("resync", "--server", c.bridge.Server)
	require.Equal(c.t, 0, code, out)
	awaitValues(c.t, c.to, ns, "a=1 b=1")
	settled(c.t, r)
}

func contested(c *clusters, ns string) {
	c.both(ns)
	create(c.t, c.from, ns, "a=1")
	r, _ := c.configMaps(ns, func(cfg *replica.Config) { cfg.Force = true })
	awaitValues(c.t, c.to, ns, "a=1")
	for range 3 {
		settled(c.t, r)
		create(c.t, c.to, ns, "a=theirs")
		awaitValues(c.t, c.to, ns, "a=1")
	}
	settled(c.t, r)
	create(c.t, c.to, ns, "a=theirs")
	parked(c.t, r, "contested", 1)
	assert.Equal(c.t, "a=theirs", values(c.t, c.to, ns))
}

// The source's etcd is restored. What the target has is not made older until a person says so.
func TestReplica_stops_where_the_source_was_restored(t *testing.T) {
	c := newClusters(t, "[{resource: configmaps}]")
	ctx := t.Context()
	c.both("shop")
	create(t, c.from, "shop", "a=1", "b=1")
	r, stop := c.configMaps("shop", nil)
	awaitValues(t, c.to, "shop", "a=1 b=1")
	backup := filepath.Join(t.TempDir(), "backup")
	require.NoError(t, c.source.Snapshot(ctx, backup))
	create(t, c.from, "shop", "a=2", "c=1")
	awaitValues(t, c.to, "shop", "a=2 b=1 c=1")
	settled(t, r)
	require.NoError(t, c.source.Restore(ctx, backup, false))
	rig.Poll(t, "a replica that stops", func() (bool, string) {
		s, _ := r.Status()
		return s.HeldEpoch != 0 && s.CaughtUp, fmt.Sprintf("%+v", s)
	})
	rig.Try(t, "the source to answer", func() error {
		_, err := c.from.CoreV1().ConfigMaps("shop").Create(ctx, configMap("d", "1"), metav1.CreateOptions{})
		return err
	})
	c.logged("d", "added")
	assert.Equal(t, "a=2 b=1 c=1", values(t, c.to, "shop"))
	stop()
	r, stop = c.configMaps("shop", nil)
	rig.Poll(t, "a replica that has stopped already", func() (bool, string) {
		s, _ := r.Status()
		return s.HeldEpoch != 0 && s.CaughtUp, fmt.Sprintf("%+v", s)
	})
	assert.Equal(t, "a=2 b=1 c=1", values(t, c.to, "shop"))
	require.NoError(t, r.Resume(ctx))
	awaitValues(t, c.to, "shop", "a=1 b=1 d=1")
	settled(t, r)
	stop()
	r, _ = c.configMaps("shop", nil)
	settled(t, r)
	s, _ := r.Status()
	assert.Zero(t, s.HeldEpoch, "%+v", s)
}

// The target's etcd is restored. What is older than what was written is written again.
func TestReplica_writes_again_what_the_target_has_lost(t *testing.T) {
	c := newClusters(t, "[{resource: configmaps}]")
	ctx := t.Context()
	c.both("shop")
	create(t, c.from, "shop", "a=1", "b=1")
	r, _ := c.configMaps("shop", nil)
	awaitValues(t, c.to, "shop", "a=1 b=1")
	backup := filepath.Join(t.TempDir(), "backup")
	require.NoError(t, c.target.Snapshot(ctx, backup))
	create(t, c.from, "shop", "a=2", "c=1")
	remove(t, c.from, "shop", "b")
	awaitValues(t, c.to, "shop", "a=2 c=1")
	settled(t, r)
	require.NoError(t, c.target.Restore(ctx, backup, false))
	awaitValues(t, c.to, "shop", "a=2 c=1")
	settled(t, r)
}
