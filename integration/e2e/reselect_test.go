// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// ofConfigMaps are ways in which a pipeline may select ConfigMaps.
var ofConfigMaps = []string{
	"[{resource: configmaps}]",
	"[{resource: configmaps, namespaces: [busy]}]",
	"[{resource: cm, namespaces: [busy, shop]}]",
	`[{resource: configmaps, labelSelector: "keep=yes"}]`,
	"[{resource: secrets, namespaces: [busy]}]",
	`[{resource: "*", namespaces: [shop]}, {resource: secrets, namespaces: [busy]}]`,
	"[{resource: configmaps, namespaceSelector: team=a}]",
}

// Namespaces and selectors are narrowed, widened and changed back while objects change. Each second time the bridge is
// killed in the midst of that.
func TestReselect_ends_with_what_is_selected(t *testing.T) {
	rig.Parallel(t, rig.All)
	t.Run("NATS", func(t *testing.T) {
		t.Parallel()
		reselect(t, newRig(t, ofConfigMaps[0]))
	})
	t.Run("Kafka", func(t *testing.T) {
		t.Parallel()
		reselect(t, newKafkaRig(t, ofConfigMaps[0]))
	})
}

func reselect(t *testing.T, r *fixture) {
	t.Helper()
	text := string(must.Get(os.ReadFile(r.config))(t))
	q := &reloaded{fixture: r, mount: &mount{dir: t.TempDir()}}
	r.config = q.mount.file()
	read := func(selection string) { q.mount.write(t, strings.Replace(text, ofConfigMaps[0], selection, 1)) }
	read(ofConfigMaps[0])
	r.namespace("shop")
	r.team("shop", "a")
	for i := range 20 {
		r.configMap("shop", fmt.Sprint("s", i), map[string]string{"keep": "yes"})
	}
	bridge := r.runReady()
	b := q.keepBusy()
	r.await("an object", func(log []entry) bool { return story(log, "busy/c0") != "" })
	random := rand.New(rand.NewPCG(7, 8)) //nolint:gosec // nothing is to be kept secret
	for round := range 20 {
		read(ofConfigMaps[1+random.IntN(len(ofConfigMaps)-1)])
		if round%5 == 4 {
			read(ofConfigMaps[0])
		}
		bridge.signal(syscall.SIGHUP)
		name := fmt.Sprint("s", round)
		keeps := fmt.Appendf(nil, `{"metadata":{"labels":{"keep":%q}}}`, []string{"no", "yes"}[round%2])
		must.Get(r.kube.CoreV1().ConfigMaps("busy").Patch(t.Context(), "c0", types.MergePatchType, keeps,
			metav1.PatchOptions{}))(t)
		_ = pause.For(t.Context(), time.Duration(random.IntN(700))*time.Millisecond)
		r.remove("shop", name)
		if round%4 == 0 {
			r.configMap("shop", name, nil)
		}
		if round%2 == 1 {
			bridge.kill()
			bridge = r.run()
			r.eventually("the signal to be its own", func() bool {
				return strings.Contains(bridge.stderr(),
					`"msg":"starting"`)
			})
			if round%4 == 1 {
				r.awaitStatus(200, "")
			}
		}
	}
	read("[{resource: cm, namespaces: [busy, shop]}]")
	bridge.signal(syscall.SIGHUP)
	b.stop()
	require.NoError(t, b.changes.Wait())
	truth := map[string]string{}
	for _, ns := range []string{"busy", "shop"} {
		all := must.Get(r.kube.CoreV1().ConfigMaps(ns).List(t.Context(), metav1.ListOptions{}))(t)
		for i := range all.Items {
			truth[ns+"/"+all.Items[i].Name] = all.Items[i].ResourceVersion
		}
	}
	r.await("what is selected, and nothing else", func(log []entry) bool { return maps.Equal(truth, existing(log)) })
	bridge.stop()
	log := r.entries()
	assert.Equal(t, truth, existing(log))
	repeatsNothing(t, log)
	deselected, selection := 0, 0
	cut := map[string]bool{} // first lists that are not complete, which the next kill may cut short
	for i := range log {
		e := &log[i]
		if e.reason == "deselected" {
			deselected++
		}
		switch e.op {
		case "snapshot-started":
			cut[e.scope(t)] = true
		case "snapshot-completed":
			delete(cut, e.scope(t))
		case "gap":
			g := e.gap()
			assert.True(t, g.Cause == "selection" && g.From != "" && (g.From != "0" || len(cut) > 0), "a gap %+v", g)
			selection++
		}
	}
	assert.True(t, deselected > 0 && selection > 0, "%d objects are deselected, %d gaps", deselected, selection)
}

// scope returns what a marker is about.
func (e *entry) scope(t *testing.T) string {
	t.Helper()
	var of struct{ Namespace, LabelSelector, FieldSelector string }
	require.NoError(t, json.Unmarshal(e.data, &of))
	return fmt.Sprintf("%s %q", e.attribute("source"), of)
}

// existing returns the ConfigMaps that exist by the log, with their versions.
func existing(log []entry) map[string]string {
	all := map[string]string{}
	for i := range log {
		switch e := &log[i]; {
		case e.kind != "ConfigMap" || e.uid == "":
		case e.op == "deleted":
			delete(all, e.key)
		default:
			all[e.key] = e.rv
		}
	}
	return all
}

// repeatsNothing checks that sequences rise, and that no state is told twice unless its object was not selected in
// between.
func repeatsNothing(t *testing.T, log []entry) {
	t.Helper()
	sequences, last := map[string]string{}, map[string]*entry{}
	for i := range log {
		e := &log[i]
		if e.uid == "" {
			continue
		}
		key := e.attribute("partitionkey")
		assert.Greater(t, e.attribute("sequence"), sequences[key], "the sequence of %s, %s", e.key, e.id)
		if before := last[e.uid]; before != nil {
			again := before.op == "deleted" && e.op == "deleted" ||
				before.op != "deleted" && (e.op == "added" || e.op == "updated" && e.rv == before.rv)
			assert.False(t, again, "%s is %s %s %s after %s %s %s",
				e.key, e.op, e.rv, e.reason, before.op, before.rv, before.reason)
		}
		sequences[key], last[e.uid] = e.attribute("sequence"), e
	}
}
