// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// team gives a namespace to a team, and returns the namespace's version since.
func (r *fixture) team(namespace, team string) {
	r.t.Helper()
	must.Get(r.kube.CoreV1().Namespaces().Patch(r.t.Context(), namespace, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"labels":{"team":%q}}}`, team), metav1.PatchOptions{}))(r.t)
}

// reasons are those of an object's events, in their order.
func reasons(log []entry, key string) string {
	var all []string
	for _, e := range log {
		if e.key == key {
			all = append(all, e.reason)
		}
	}
	return strings.Join(all, " ")
}

// mustRise checks that the sequence of an object rises, and that each change of the selection has an epoch of its own.
func mustRise(t *testing.T, log []entry, key string) {
	t.Helper()
	last, epoch := "", uint64(0)
	for _, e := range log {
		if e.key != key {
			continue
		}
		sequence := e.attribute("sequence")
		assert.Greater(t, sequence, last, "the sequence of %s", e.id)
		now, _, _ := e.numbers()
		assert.True(t, e.reason == "watch" || now > epoch, "%s has reason %s, and epoch %d was before", e.id, e.reason, epoch)
		last, epoch = sequence, now
	}
}

// An object that leaves the selection with its namespace is deleted, and added when it comes back, each time in a
// new epoch.
func TestNamespaceSelector_follows_labels(t *testing.T) {
	t.Parallel()
	r := newRig(t, `[{resource: configmaps, namespaceSelector: team=a}]`)
	r.namespace("one")
	r.namespace("two")
	r.configMap("one", "c", nil)
	r.configMap("two", "d", nil)
	b := r.runReady()
	if code, out, said := r.command("resync", "--server", r.server); code != 0 ||
		out != "pipeline test: configmaps: nothing to do, it selects nothing now\n" {
		t.Errorf("resync of nothing ends with %d and says %q, %q", code, out, said)
	}
	r.team("one", "a")
	r.awaitStory("one/c", "added")
	r.awaitStatus(http.StatusOK, "ok")
	r.team("two", "a")
	r.awaitStory("two/d", "added")
	r.team("one", "b")
	r.awaitStory("one/c", "added deleted")
	r.awaitPage("the stream to end", "", "configmaps.v1/one")
	r.team("one", "a")
	r.awaitStory("one/c", "added deleted added")
	r.patch("one", "c", `{"data":{"k":"v"}}`)
	log := r.awaitStory("one/c", "added deleted added updated")
	assert.Equal(t, "snapshot deselected snapshot watch", reasons(log, "one/c"))
	b.stop()

	r.team("one", "b")
	r.patch("two", "d", `{"data":{"k":"v"}}`)
	b = r.run()
	r.awaitStory("two/d", "added updated")
	log = r.awaitStory("one/c", "added deleted added updated deleted")
	assert.Equal(t, "snapshot deselected snapshot watch deselected", reasons(log, "one/c"))
	r.team("one", "a")
	r.awaitStory("one/c", "added deleted added updated deleted added")
	r.remove("one", "c")
	r.awaitStory("one/c", "added deleted added updated deleted added deleted")
	b.stop()
	log = r.entries()
	mustRise(t, log, "one/c")
	mustBeUnique(t, log)
}

// What a wildcard names comes and goes in the namespaces that are selected, and these do too.
func TestNamespaceSelector_takes_all_that_a_wildcard_names(t *testing.T) {
	t.Parallel()
	r := newRig(t,
		`[{resource: configmaps, namespaceSelector: team=a}, {resource: "*", namespaceSelector: team=a, exclude: [events, leases]}]`)
	c := r.custom()
	r.namespace("one")
	r.team("default", "a")
	r.configMap("default", "c", nil)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	_, err := r.kube.CoreV1().Secrets("one").Create(t.Context(), secret, metav1.CreateOptions{})
	require.NoError(t, err)
	r.configMap("one", "d", nil)
	b := r.run()
	r.awaitStory("default/c", "added")
	r.awaitStatus(http.StatusOK, "ok")
	c.define("gadgets", "v1")
	c.make("gadgets", "v1", "a")
	r.awaitStory("default/a", "added")
	r.team("one", "a")
	r.awaitStory("one/d", "added")
	r.awaitStory("one/s", "added")
	c.undefine("gadgets")
	r.awaitStory("default/a", "added deleted")
	r.awaitStatus(http.StatusOK, "ok")
	r.team("one", "b")
	r.awaitStory("one/d", "added deleted")
	log := r.awaitStory("one/s", "added deleted")
	assert.Equal(t, "snapshot deselected", reasons(log, "one/s"))
	r.awaitPage("the streams to end", "secrets.v1/default", "/one")
	r.team("one", "a")
	r.awaitStory("one/s", "added deleted added")
	r.awaitStory("one/d", "added deleted added")
	b.stop()

	r.team("one", "b")
	b = r.run()
	r.awaitStory("one/s", "added deleted added deleted")
	r.awaitStory("one/d", "added deleted added deleted")
	r.awaitStory("default/c", "added")
	r.awaitPage("the streams to end", "secrets.v1/default", "/one")
	b.stop()
	log = r.entries()
	for _, e := range log {
		assert.NotEqual(t, "Namespace", e.kind, "%s is in no namespace", e.key)
		assert.NotEqual(t, "CustomResourceDefinition", e.kind, "%s is in no namespace", e.key)
	}
	mustRise(t, log, "one/s")
	mustBeUnique(t, log)
}

// Labels that go back and forth while the bridge crashes leave the log with what exists in the namespaces that are
// selected at last.
func TestNamespaceSelector_survives_crashes_while_labels_change(t *testing.T) {
	rig.Parallel(t, rig.All)
	for name, kinds := range map[string][]string{
		"{resource: configmaps, namespaceSelector: team=a}":                     {"configmaps"},
		`{resource: "*", namespaceSelector: team=a, exclude: [events, leases]}`: {"configmaps", "secrets"},
	} {
		t.Run(kinds[len(kinds)-1], func(t *testing.T) {
			t.Parallel()
			survivesCrashes(newRig(t, "["+name+"]"), kinds...)
		})
	}
}

// survivesCrashes judges a namespace that is selected all the time by the oracle, and those that come and go by what is
// left.
func survivesCrashes(r *fixture, kinds ...string) {
	t := r.t
	t.Helper()
	const objects, rounds = 200, 8
	r.manyConfigMaps("one", objects)
	r.manyConfigMaps("two", objects)
	b := r.keepBusy()
	b.others, b.selected = true, true
	r.team("busy", "a")
	for n := range rounds {
		teams := []string{"a", "b"}
		r.team("one", teams[n%2])
		r.run()
		r.poll("it to have begun", func() (bool, string) { return strings.Contains(r.bridge.stderr(), "publishing"), "" })
		size := len(r.entries())
		r.team("two", teams[n%2])
		r.team("one", teams[(n+1)%2])
		r.poll("some events", func() (bool, string) { // those of the busy namespace never end
			return len(r.entries()) > size+n*20, fmt.Sprint(len(r.entries()), " after ", size)
		})
		r.bridge.kill()
		r.team("one", teams[n%2])
	}
	r.team("one", "a")
	r.team("two", "b")
	r.run()
	alive := func(log []entry, ns string) (n int) {
		last := map[string]string{}
		for _, e := range log {
			if strings.HasPrefix(e.key, ns+"/o") {
				last[e.key] = e.op
			}
		}
		for _, op := range last {
			if op != "deleted" {
				n++
			}
		}
		return n
	}
	r.await("what is selected, and nothing else", func(log []entry) bool {
		return alive(log, "one") >= objects &&
			alive(log, "two") == 0
	})
	b.judge("test", true, kinds...) // the first list of a kind has only last states
	r.bridge.stop()
	log := r.entries()
	mustBeUnique(t, log)
	last := map[string]string{}
	for _, e := range log {
		assert.True(t, e.uid == "" || last[e.uid] != e.op || e.op == "updated",
			"%s was %s twice in a row: %s", e.key, e.op, e.id)
		last[e.uid] = e.op
	}
}

func TestNamespaceSelector_under_the_least_permissions(t *testing.T) {
	t.Parallel()
	r := rigOn(t, controlplane.ForTest(t, controlplane.Config{RBAC: true}),
		`[{resource: configmaps, namespaceSelector: team=a}, {resource: "*.apps", namespaceSelector: team=a}]`)
	must.Get(r.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "a"}},
	}, metav1.CreateOptions{}))(t)
	r.configMap("shop", "c", nil)
	r.apply(r.rolesFor("selecting", "selecting"))
	b := r.runAs("selecting")
	r.awaitStory("shop/c", "added")
	r.awaitStatus(http.StatusOK, "ok")
	r.validates(0)
	b.stop()
	assert.NotContains(t, b.stderr(), "forbidden", "something is forbidden")
}

// A namespace that comes back while it is half gone from the log is whole there again.
func TestNamespaceSelector_ends_what_a_crash_has_cut_short(t *testing.T) {
	rig.Parallel(t, rig.All)
	const objects, cut = 300, 100
	r := newRig(t, `[{resource: configmaps, namespaceSelector: team=a}]`)
	r.manyConfigMaps("one", objects)
	r.team("one", "a")
	r.runReady()
	r.limit(cut)
	r.team("one", "b")
	r.killFull()
	require.Equal(t, cut, count(r.entries(), "deleted"), "deleted before the crash")
	r.team("one", "a")
	r.run()
	r.await("what was deleted to be there again", func(log []entry) bool { return count(log, "added") == objects+cut })
	r.bridge.stop()
	log := r.entries()
	assert.Equal(t, cut, count(log, "deleted"), "deleted, want those of before the crash: the others are selected again")
	mustBeUnique(t, log)
}
