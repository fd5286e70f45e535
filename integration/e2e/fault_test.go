// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
)

// mustBeUnique checks that no event is in the log twice.
func mustBeUnique(t *testing.T, log []entry) {
	t.Helper()
	seen := map[string]uint64{}
	for _, e := range log {
		id := e.attribute("source") + " " + e.id
		first, twice := seen[id]
		assert.False(t, twice, "%s is in the log twice, at %d and %d", id, first, e.message.Sequence)
		seen[id] = e.message.Sequence
	}
}

// A restarted API server can watch from no version before its start.
func TestBridge_announces_a_gap_and_deletes_what_is_gone(t *testing.T) {
	t.Parallel()
	r := newRig(t, `[{resource: configmaps, namespaces: [default]}]`)
	for _, name := range []string{"stays", "changes", "goes"} {
		r.configMap("default", name, nil)
	}
	b := r.runReady()
	b.stop()
	before := len(r.entries())
	first := r.patch("default", "changes", `{"data":{"a":"1"}}`)
	last := r.patch("default", "changes", `{"data":{"a":"2"}}`)
	r.remove("default", "goes")
	require.NoError(t, r.api.KillAPIServer())
	require.NoError(t, r.api.StartAPIServer(t.Context()))
	b = r.run()
	r.awaitStory("default/goes", "added deleted")
	r.awaitStory("default/changes", "added updated updated")
	r.configMap("default", "new", nil)
	log := r.awaitStory("default/new", "added")
	b.stop()
	assert.Equal(t, "added", story(log, "default/stays"), "what did not change was published again")
	require.Equal(t, 1, count(log, "gap"), "gaps were announced, want 1")
	for _, e := range log[before:] {
		switch {
		case e.op == "gap" && !strings.Contains(string(e.data), `"from":"`):
			t.Errorf("the gap does not say from where: %s", e.data)
		case e.key == "default/goes" && e.reason != "recovered", e.rv == first.ResourceVersion && e.reason != "recovered":
			t.Errorf("%s of %s at %s has reason %q, want recovered", e.op, e.key, e.rv, e.reason)
		case e.rv == last.ResourceVersion && e.reason != "relist":
			t.Errorf("the last state has reason %q, want relist", e.reason)
		}
	}
	mustBeUnique(t, log)
}

func TestBridge_outlives_its_API_server(t *testing.T) {
	t.Parallel()
	r := newRig(t, `[{resource: configmaps, namespaces: [default]}]`)
	require.NoError(t, r.api.StopAPIServer(t.Context()))
	b := r.run()
	r.awaitStatus(http.StatusServiceUnavailable, "starting")
	require.NoError(t, r.api.StartAPIServer(t.Context()))
	r.awaitStatus(http.StatusOK, "ok")
	for i := range 2 {
		r.configMap("default", fmt.Sprint("before-", i), nil)
		require.NoError(t, r.api.KillAPIServer())
		require.NoError(t, r.api.StartAPIServer(t.Context()))
		r.configMap("default", fmt.Sprint("after-", i), nil)
		r.awaitStory(fmt.Sprint("default/after-", i), "added")
	}
	b.stop()
	log := r.entries()
	for i := range 2 {
		assert.Equal(t, "added", story(log, fmt.Sprint("default/before-", i)), "before-%d: the log, want added", i)
	}
	mustBeUnique(t, log)
}

// Events are not in the API server's watch cache: when etcd was compacted, the position is gone.
func TestBridge_relists_when_its_position_was_compacted(t *testing.T) {
	t.Parallel()
	r := newRig(t, `[{resource: events, namespaces: [default]}]`)
	create := func(name string) {
		_, err := r.kube.CoreV1().Events("default").Create(t.Context(), &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: name},
			InvolvedObject: corev1.ObjectReference{Namespace: "default", Name: "x", Kind: "Pod"},
			Reason:         "Testing",
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	create("a")
	b := r.runReady()
	b.stop()
	create("b")
	require.NoError(t, r.kube.CoreV1().Events("default").Delete(t.Context(), "a", metav1.DeleteOptions{}))
	create("c")
	require.NoError(t, r.api.Compact(context.WithoutCancel(t.Context())))
	b = r.run()
	r.awaitOp("gap", 1)
	r.awaitStory("default/c", "added")
	log := r.awaitStory("default/a", "added deleted")
	b.stop()
	mustBeUnique(t, log)
}

func TestBridge_refuses_the_checkpoint_of_another_cluster(t *testing.T) {
	t.Parallel()
	r := newRig(t, `[{resource: configmaps, namespaces: [default]}]`)
	b := r.runReady()
	b.stop()
	before := len(r.entries())
	r.api = controlplane.ForTest(t, controlplane.Config{})
	r.configure(`[{resource: configmaps, namespaces: [default]}]`)
	b = r.run()
	b.exit(1)
	if out := b.stderr(); !strings.Contains(out, "was written for cluster") ||
		!strings.Contains(out, "move the old one away") {
		t.Errorf("stderr does not say what is wrong and what to do:\n%s", out)
	}
	n := len(r.entries())
	assert.Equal(t, before, n, "%d events were published", n-before)
}

func TestBridge_does_not_wait_for_the_broker_when_asked_twice_to_stop(t *testing.T) {
	t.Parallel()
	r := newRig(t, `[{resource: configmaps, namespaces: [default]}]`)
	b := r.runReady()
	r.broker.stop()
	r.configMap("default", "a", nil)
	r.awaitMetric(`buffered_events{pipeline="test"} 1`)
	b.signal(syscall.SIGTERM)
	r.poll("the bridge to drain", func() (bool, string) {
		out := b.stderr()
		return strings.Contains(out, "stopping"), out
	})
	b.signal(syscall.SIGTERM)
	b.exit(128 + int(syscall.SIGTERM))
}
