// SPDX-License-Identifier: Apache-2.0

package replicate

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/plan"
)

// TestPair_does_not_loop has two clusters replicate into each other.
func TestPair_does_not_loop(t *testing.T) {
	p := newPair(t)
	t.Run("two processes publish and replicate", func(t *testing.T) { bothProcesses(p.in(t)) })
	for i, c := range []struct {
		name       string
		west, east func(*replica.Config)
		test       func(*replicas)
	}{
		{"what is made on both sides is reported by both", nil, nil, sameName},
		{"what is made on both sides is overwritten where the file says so", existing(plan.Overwrite), nil, oneTakes},
		{"what is made on both sides is adopted where the file says so", existing(plan.Adopt), nil, oneTakes},
		{"what both take from each other is reported", existing(plan.Adopt), existing(plan.Adopt), bothTake},
		{"what both overwrite is reported", existing(plan.Overwrite), existing(plan.Overwrite), bothTake},
		{"a copy that is detached is an original", nil, nil, detachedCopy},
		{"a copy that is detached is taken back", existing(plan.Adopt), nil, detachedAndTaken},
		{"what a person copies with its label is an original", nil, nil, copiedByPeople},
		{"people go on in the target, and back", nil, nil, failback},
	} {
		t.Run(c.name, func(t *testing.T) {
			ns := fmt.Sprintf("p%d", i)
			part := p.in(t)
			part.namespace(ns)
			c.test(&replicas{pair: part, ns: ns, configure: [2]func(*replica.Config){c.west, c.east}})
		})
	}
	t.Run("two namespaces replicate into each other", func(t *testing.T) { swapped(p.in(t)) })
	t.Run("a target is restored", func(t *testing.T) { restoredTarget(p.in(t)) })
}

func existing(e plan.Existing) func(*replica.Config) {
	return func(cfg *replica.Config) { cfg.Existing, cfg.Force = e, true }
}

// bothProcesses is about the replicas of the processes themselves.
func bothProcesses(p *pair) {
	t, east, west := p.t, p.atEast(), p.atWest()
	both := func(want string) {
		t.Helper()
		awaitValues(t, east, "shop", want)
		awaitValues(t, west, "shop", want)
	}
	create(t, east, "shop", "a=1", "b=1")
	create(t, west, "shop", "c=1", "d=1")
	both("a=1 b=1 c=1 d=1")
	create(t, east, "shop", "a=2")
	create(t, west, "shop", "d=2")
	remove(t, east, "shop", "b")
	remove(t, west, "shop", "c")
	both("a=2 d=2")
	remove(t, west, "shop", "a") // a copy is no original
	both("a=2 d=2")

	p.there.bridge.Crash()
	p.back.bridge.Crash()
	create(t, east, "shop", "same=east", "d=edited")
	create(t, west, "shop", "same=west")
	remove(t, west, "shop", "a")
	p.restart(p.there)
	p.restart(p.back)
	for _, c := range []*clusters{p.there, p.back} {
		c.bridge.Poll("an object that waits", func() (bool, string) {
			n, _ := c.bridge.Metric("replica_parked_objects", `reason="exists"`)
			return n == 1, c.bridge.Metrics()
		})
		code, out := c.command("replicate", "status", "--server", c.bridge.Server)
		assert.Equal(t, 0, code, out)
		assert.Contains(t, out, "configmaps shop/same: exists (an object of somebody else has the name)", out)
	}
	awaitValues(t, west, "shop", "a=2 d=2 same=west")
	assert.Equal(t, "a=2 d=edited same=east", values(t, east, "shop"), "fields of others are left")
	remove(t, east, "shop", "same")
	awaitValues(t, east, "shop", "a=2 d=edited same=west")
}

func sameName(r *replicas) {
	create(r.t, r.atEast(), r.ns, "same=east")
	create(r.t, r.atWest(), r.ns, "same=west")
	r.start()
	reported := func(n int) {
		r.t.Helper()
		parked(r.t, r.west, "exists", n)
		parked(r.t, r.east, "exists", n)
	}
	reported(1)
	r.quiet()
	create(r.t, r.atEast(), r.ns, "same=east2")
	reported(1)
	r.quiet()
	r.await("same=east2", "same=west")
	// It gets another name.
	remove(r.t, r.atEast(), r.ns, "same")
	create(r.t, r.atEast(), r.ns, "renamed=east")
	r.await("renamed=east same=west", "renamed=east same=west")
	reported(0)
	create(r.t, r.atWest(), r.ns, "same=west2")
	r.await("renamed=east same=west2", "renamed=east same=west2")
	r.quiet()
}

// oneTakes: west adopts or overwrites.
func oneTakes(r *replicas) {
	create(r.t, r.atEast(), r.ns, "same=east")
	create(r.t, r.atWest(), r.ns, "same=west")
	r.start()
	r.await("same=east", "same=east")
	parked(r.t, r.west, "exists", 0)
	parked(r.t, r.east, "exists", 0)
	r.quiet()
	create(r.t, r.atEast(), r.ns, "same=2")
	r.await("same=2", "same=2")
	create(r.t, r.atWest(), r.ns, "same=edited")
	r.await("same=2", "same=2")
	r.quiet()
	remove(r.t, r.atEast(), r.ns, "same")
	r.await("", "")
	r.quiet()
}

// bothTake: either one takes the other's object before it hears that its own was taken.
func bothTake(r *replicas) {
	create(r.t, r.atEast(), r.ns, "same=east")
	create(r.t, r.atWest(), r.ns, "same=west")
	r.back.logged("same", "added")
	r.back.bridge.Crash()
	r.startWest()
	r.await("same=east", "same=east")
	r.startEast()
	rig.Poll(r.t, "what west had in east", func() (bool, string) {
		east, west := r.values()
		return east == "same=west", fmt.Sprintf("%q %q", east, west)
	})
	r.restart(r.back)
	reported := func(n int) {
		r.t.Helper()
		parked(r.t, r.west, "circular", n)
		parked(r.t, r.east, "circular", n)
	}
	reported(1)
	r.quiet()
	_, west := r.values()
	create(r.t, r.atEast(), r.ns, "same=2")
	r.quiet()
	reported(1)
	r.await("same=2", west)
	detach(r.t, r.atEast(), r.ns, "same")
	r.await("same=2", "same=2")
	reported(0)
	r.quiet()
}

// detach takes the label of the replica from ConfigMaps.
func detach(t *testing.T, client kubernetes.Interface, ns string, names ...string) {
	t.Helper()
	for _, name := range names {
		_, err := client.CoreV1().ConfigMaps(ns).Patch(t.Context(), name, types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, clean.Label), metav1.PatchOptions{})
		require.NoError(t, err)
	}
}

func detachedCopy(r *replicas) {
	create(r.t, r.atEast(), r.ns, "a=1")
	r.start()
	r.await("a=1", "a=1")
	settled(r.t, r.west)
	detach(r.t, r.atWest(), r.ns, "a")
	parked(r.t, r.west, "detached", 1)
	parked(r.t, r.east, "exists", 1)
	create(r.t, r.atWest(), r.ns, "a=west")
	r.quiet()
	r.await("a=1", "a=west")
	remove(r.t, r.atEast(), r.ns, "a")
	r.await("a=west", "a=west")
	parked(r.t, r.west, "detached", 0)
	parked(r.t, r.east, "exists", 0)
	r.quiet()
	remove(r.t, r.atWest(), r.ns, "a")
	r.await("", "")
}

// detachedAndTaken: west adopts.
func detachedAndTaken(r *replicas) {
	create(r.t, r.atEast(), r.ns, "a=1")
	r.start()
	r.await("a=1", "a=1")
	settled(r.t, r.west)
	detach(r.t, r.atWest(), r.ns, "a")
	rig.Poll(r.t, "a copy again", func() (bool, string) {
		got, err := r.atWest().CoreV1().ConfigMaps(r.ns).Get(r.t.Context(), "a", metav1.GetOptions{})
		return err == nil && got.Labels[clean.Label] == r.ns, fmt.Sprint(got, err)
	})
	r.quiet()
	parked(r.t, r.east, "exists", 0)
	create(r.t, r.atEast(), r.ns, "a=2")
	r.await("a=2", "a=2")
}

// copiedByPeople is what kubectl get -o yaml and kubectl create make of a copy.
func copiedByPeople(r *replicas) {
	create(r.t, r.atEast(), r.ns, "a=1")
	r.start()
	r.await("a=1", "a=1")
	copied := must.Get(r.atWest().CoreV1().ConfigMaps(r.ns).Get(r.t.Context(), "a", metav1.GetOptions{}))(r.t)
	paste := func(client kubernetes.Interface, name string) {
		r.t.Helper()
		m := &corev1.ConfigMap{Data: copied.Data, ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: copied.Labels, Annotations: copied.Annotations,
		}}
		_, err := client.CoreV1().ConfigMaps(r.ns).Create(r.t.Context(), m, metav1.CreateOptions{})
		require.NoError(r.t, err)
	}
	paste(r.atWest(), "b")
	r.await("a=1 b=1", "a=1 b=1")
	r.quiet()
	create(r.t, r.atWest(), r.ns, "b=2")
	r.await("a=1 b=2", "a=1 b=2")

	// The original comes back from its copy.
	remove(r.t, r.atEast(), r.ns, "a")
	r.await("b=2", "b=2")
	paste(r.atEast(), "a")
	r.await("a=1 b=2", "a=1 b=2")
	create(r.t, r.atEast(), r.ns, "a=2")
	r.await("a=2 b=2", "a=2 b=2")
	r.quiet()
	parked(r.t, r.west, "detached", 0)
	parked(r.t, r.west, "circular", 0)
}

// failback: what people have made of the copies while the source was away goes back to it.
func failback(r *replicas) {
	r.configure[1] = existing(plan.Adopt)
	create(r.t, r.atEast(), r.ns, "a=1", "b=1", "c=1")
	r.start()
	r.await("a=1 b=1 c=1", "a=1 b=1 c=1")
	r.quiet()
	r.stopWest()
	r.stopEast()
	// All copies are originals now.
	detach(r.t, r.atWest(), r.ns, "a", "b", "c", probe+"east")
	create(r.t, r.atWest(), r.ns, "a=2", "new=1")
	remove(r.t, r.atWest(), r.ns, "b")

	r.startEast()
	r.await("a=2 b=1 c=1 new=1", "a=2 c=1 new=1")
	settled(r.t, r.east)
	// What west has deleted is no copy: people delete it.
	left := must.Get(r.atEast().CoreV1().ConfigMaps(r.ns).List(r.t.Context(), metav1.ListOptions{
		LabelSelector: "!" + clean.Label,
	}))(r.t)
	require.Len(r.t, left.Items, 1)
	remove(r.t, r.atEast(), r.ns, left.Items[0].Name)
	r.startWest()
	settled(r.t, r.west)
	create(r.t, r.atWest(), r.ns, "c=2")
	r.await("a=2 c=2 new=1", "a=2 c=2 new=1")
	assert.Empty(r.t, reported(r.west))
	remove(r.t, r.atWest(), r.ns, "a")
	r.await("c=2 new=1", "c=2 new=1")
}

// swapped maps each of two namespaces to the other one, both ways.
func swapped(p *pair) {
	p.namespace("one", "two")
	rules := clean.Config{Namespaces: map[string]string{"one": "two", "two": "one"}}
	create(p.t, p.atEast(), "one", "a=1", "same=east")
	create(p.t, p.atEast(), "two", "b=1")
	create(p.t, p.atWest(), "one", "c=1")
	create(p.t, p.atWest(), "two", "same=west")
	var both [2]*replica.Replica
	for i, c := range []*clusters{p.there, p.back} {
		both[i], _ = c.replicate(c.replicaConfig("swapped", c.entry("", "configmaps", rules, "one", "two")))
	}
	await := func(a string) {
		p.t.Helper()
		awaitValues(p.t, p.atEast(), "one", "a="+a+" same=east")
		awaitValues(p.t, p.atEast(), "two", "b=1 c=1")
		awaitValues(p.t, p.atWest(), "one", "b=1 c=1")
		awaitValues(p.t, p.atWest(), "two", "a="+a+" same=west")
		parked(p.t, both[0], "exists", 1)
		parked(p.t, both[1], "exists", 1)
	}
	await("1")
	create(p.t, p.atEast(), "one", "a=2")
	await("2")
}

// restoredTarget: west has again what it had before, as a copy or as an original.
func restoredTarget(p *pair) {
	p.namespace("back")
	r := &replicas{pair: p, ns: "back"}
	create(p.t, p.atEast(), "back", "a=1", "c=1")
	create(p.t, p.atWest(), "back", "b=1")
	r.start()
	r.await("a=1 b=1 c=1", "a=1 b=1 c=1")
	backup := filepath.Join(p.t.TempDir(), "backup")
	require.NoError(p.t, p.there.target.Snapshot(p.t.Context(), backup))
	remove(p.t, p.atWest(), "back", "b")
	remove(p.t, p.atEast(), "back", "c")
	r.await("a=1", "a=1")
	create(p.t, p.atEast(), "back", "b=2", "a=2")
	create(p.t, p.atWest(), "back", "c=2")
	r.await("a=2 b=2 c=2", "a=2 b=2 c=2")
	require.NoError(p.t, p.there.target.Restore(p.t.Context(), backup, false))
	rig.Poll(p.t, "a replica that stops", func() (bool, string) {
		s, _ := r.east.Status()
		return s.HeldEpoch != 0 && s.CaughtUp, fmt.Sprintf("%+v", s)
	})
	require.NoError(p.t, r.east.Resume(p.t.Context()))
	// Each has a copy of what the other had once as c.
	r.await("a=2 b=2", "a=2 b=1")
	parked(p.t, r.west, "exists", 1)
	parked(p.t, r.east, "exists", 1)
	r.quiet()
}
