// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
)

// manyConfigMaps makes n objects, and returns their versions by key.
func (r *fixture) manyConfigMaps(ns string, n int) map[string]string {
	r.t.Helper()
	r.namespace(ns)
	made := make([]string, n)
	var g errgroup.Group
	g.SetLimit(8)
	for i := range n {
		g.Go(func() error {
			o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("o%04d", i)}}
			got, err := r.kube.CoreV1().ConfigMaps(ns).Create(r.t.Context(), o, metav1.CreateOptions{})
			if err == nil {
				made[i] = got.ResourceVersion
			}
			return err
		})
	}
	require.NoError(r.t, g.Wait())
	versions := map[string]string{}
	for i, version := range made {
		versions[fmt.Sprintf("%s/o%04d", ns, i)] = version
	}
	return versions
}

// again returns what the log has of a resync: how often it has each key, by the number in the ids.
func again(t *testing.T, log []entry) map[string]map[string]int {
	t.Helper()
	found := map[string]map[string]int{}
	for _, e := range log {
		if e.reason != "resync" {
			continue
		}
		epoch, version, step := e.numbers()
		number, ok := strings.CutPrefix(e.id, fmt.Sprintf("%s.%d.%d.%d.r", e.uid, epoch, version, step))
		require.True(t, ok, "published again is %s", e.id)
		assert.Equal(t, "updated", e.op, "published again is %s", e.id)
		if found[number] == nil {
			found[number] = map[string]int{}
		}
		found[number][e.key]++
	}
	return found
}

// ordered fails if an older state of an object follows a newer one, or versions are not those of the last events.
func ordered(t *testing.T, log []entry, versions map[string]string) {
	t.Helper()
	newest := map[string]int{}
	for _, e := range log {
		rv, _ := strconv.Atoi(e.rv)
		if e.uid == "" {
			continue
		}
		require.GreaterOrEqual(t, rv, newest[e.key], "%s at %d stands behind", e.key, rv)
		newest[e.key] = rv
	}
	for key, version := range versions {
		assert.Equal(t, version, fmt.Sprint(newest[key]), "the log has %s at %d", key, newest[key])
	}
}

// resyncs asks a bridge by the command to publish everything again, while objects change, come and go.
func resyncs(t *testing.T, api *controlplane.ControlPlane) {
	r := rigOn(t, api, `
      - {resource: configmaps, namespaces: [resyncs]}
      - {resource: secrets, namespaces: [resyncs]}`)
	versions := r.manyConfigMaps("resyncs", 400)
	r.runReady()
	if code, _, said := r.command("resync", "--server", r.server, "pods"); code != 2 ||
		said != "error: resource \"pods\" is not this bridge's; valid: configmaps, secrets\n" {
		t.Errorf("for what is not there it ends with %d: %s", code, said)
	}
	ended := make(chan struct{})
	var code int
	var out, said string
	go func() {
		defer close(ended)
		code, out, said = r.command("resync", "--server", r.server, "cm", "--pipeline", "test")
	}()
	r.await("the resync", func(log []entry) bool { return len(again(t, log)) > 0 })
	changed, random := map[string]bool{}, rand.New(rand.NewPCG(1, 2))
	for running := true; running; {
		name := fmt.Sprintf("o%04d", random.IntN(400))
		changed["resyncs/"+name] = true
		versions["resyncs/"+name] = r.patch("resyncs", name,
			fmt.Sprintf(`{"data":{"x":"%d"}}`, random.IntN(1e9))).ResourceVersion
		select {
		case <-ended:
			running = false
		default:
		}
	}
	r.settle("resyncs") // only one object's events are in order
	log := r.entries()
	assert.True(t, code == 0 && strings.Contains(out, "pipeline test: configmaps.v1/resyncs: done, ") &&
		!strings.Contains(out, "secrets"), "it ended with %d: %s%s", code, out, said)
	found := again(t, log)
	require.Len(t, found, 1, "there are %d resyncs, %d objects changed", len(found), len(changed))
	require.NotEmpty(t, changed, "there are %d resyncs, %d objects changed", len(found), len(changed))
	ordered(t, log, versions)
	for _, objects := range found {
		t.Logf("%d objects are published again, %d changed meanwhile", len(objects), len(changed))
		for key := range versions {
			assert.True(t, objects[key] <= 1 && (objects[key] != 0 || changed[key]),
				"%s is published again %d times", key, objects[key])
		}
	}
	r.awaitMetric(`resyncs_total{pipeline="test",stream="configmaps.v1/resyncs"} 1`)
	var answer struct{ Streams []struct{ State string } }
	code, out, said = r.command("resync", "--server", r.server, "--no-wait", "-o", "json", "secrets")
	if err := json.Unmarshal([]byte(out), &answer); code != 0 || err != nil || len(answer.Streams) != 1 ||
		answer.Streams[0].State == "refused" {
		t.Errorf("without waiting it ends with %d: %s%s (%v)", code, out, said, err)
	}
}

// A schedule of a minute, the shortest; a crash in the middle, and what is left of the slot.
func TestResync_on_schedule_is_complete_after_a_crash_too(t *testing.T) {
	rig.Parallel(t, rig.All)
	r := newRig(t, `[{resource: configmaps, namespaces: [slots], resync: 1m}]`)
	const before = 500
	versions := r.manyConfigMaps("slots", 2*before)
	r.runReady()
	r.limit(before)
	r.killFull() // the slot in which everything was just listed is none
	begun := again(t, r.entries())
	r.run()
	require.Len(t, begun, 1, "there are %d resyncs before the crash", len(begun))
	log := r.await("the whole slot", func(log []entry) bool {
		n := 0
		for _, objects := range again(t, log) {
			n = max(n, len(objects))
		}
		return n == len(versions)
	})
	ordered(t, log, versions)
	ids := map[string]int{}
	for _, e := range log {
		ids[e.id]++
	}
	for id, n := range ids {
		if n > 1 { // the broker recognises the repetition within two minutes
			t.Errorf("%s is there %d times", id, n)
		}
	}
}
