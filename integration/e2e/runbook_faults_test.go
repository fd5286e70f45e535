// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// Faults of what the bridge is given: its file, its checkpoint's server, the log's limits, objects, and etcd.
func TestRunbook_alerts_fire_on_what_the_bridge_cannot_help(t *testing.T) {
	rig.Parallel(t, rig.All)
	r := newRig(t, "[]")
	elsewhere := &broker{t, rig.NATSForTest(t, nil)}
	r.configureSink(`[{resource: configmaps, namespaces: [default]}]`,
		fmt.Sprintf("sink: {nats: {servers: [%q]}}\n    checkpoint: {nats: {servers: [%q]}}", r.broker.url(),
			elsewhere.url()))
	e := newEyes(r, map[string]string{"checkpointAgeSeconds": "5", "retriesPerSecond": "0"})
	r.run()
	e.ready(2)

	good := must.Get(os.ReadFile(r.config))(t)
	e.During(func() {
		require.NoError(t, os.WriteFile(r.config, []byte("pipelines: none\n"), 0o600))
		e.Told("config_last_reload_successful", func(v float64) bool { return v == 0 })
		e.Hold(5)
	}, func() {
		require.NoError(t, os.WriteFile(r.config, good, 0o600))
		e.Told("config_last_reload_successful", func(v float64) bool { return v == 1 })
		e.Hold(1)
	}, "KubeEventbridgeReloadRefused")

	e.During(func() {
		r.large("too-large", 1<<20)
		e.Told("publish_failures_total", func(v float64) bool { return v > 0 })
		e.ready(5)
	}, func() { e.Hold(35) }, "KubeEventbridgeRefused")

	e.During(func() {
		r.limit(0)
		r.configMap("default", "waits", nil)
		e.Grows(5, 8, "publish_retries_total") // in every window that the rule looks at
	}, func() {
		r.limit(-1)
		e.ready(12)
	}, "KubeEventbridgeRetrying")

	r.configMap("default", "saved", nil)
	e.Told("checkpoint_age_seconds", func(v float64) bool { return v < 2 })
	e.Hold(1)
	e.During(func() {
		elsewhere.stop()
		r.configMap("default", "unsaved", nil)
		e.Told("checkpoint_age_seconds", func(v float64) bool { return v > 5 })
		e.Hold(12)
	}, func() {
		elsewhere.start()
		e.Told("checkpoint_age_seconds", func(v float64) bool { return v < 5 })
		e.Hold(1)
	}, "KubeEventbridgeNotCommitting")

	backup := filepath.Join(t.TempDir(), "backup")
	require.NoError(t, r.api.Snapshot(t.Context(), backup))
	e.During(func() {
		r.configMap("default", "undone", nil)
		r.awaitStory("default/undone", "added")
		require.NoError(t, r.api.Restore(context.WithoutCancel(t.Context()), backup, false))
		e.Told("histories_total", func(v float64) bool { return v > 0 })
		e.ready(3)
	}, func() { e.Hold(130) }, "KubeEventbridgeHistoryRestored")
	e.Also("KubeEventbridgeGap", "KubeEventbridgeRefused") // everything is published again

	must.Get(r.js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "QUEUE", Subjects: []string{"queue.>"}, Retention: jetstream.WorkQueuePolicy, // consumers remove events
	}))(t)
	e.During(func() {
		replaced(t, r.config, r.config, "pipelines:\n", fmt.Sprintf("pipelines:\n  - name: other\n"+
			"    resources: [{resource: secrets, namespaces: [default]}]\n"+
			"    sink: {nats: {servers: [%q], stream: QUEUE, subject: \"queue.{resource}.{namespace}.{name}\"}}\n",
			r.broker.url()))
		e.Told("pipeline_ended", func(v float64) bool { return v == 1 })
		e.Hold(5)
		r.configMap("default", "goes-on", nil)
		r.awaitStory("default/goes-on", "added")
	}, func() {
		require.NoError(t, r.js.DeleteStream(t.Context(), "QUEUE"))
		replaced(t, r.config, r.config, "stream: QUEUE", "stream: OTHER")
		e.ready(5)
	}, "KubeEventbridgePipelineEnded")
	e.Judge()
}

// Faults of who leads.
func TestRunbook_alerts_fire_on_faults_of_replicas(t *testing.T) {
	rig.Parallel(t, rig.All)
	r := newRig(t, "[]")
	r.configureSink(`[{resource: configmaps, namespaces: [default]}]`,
		fmt.Sprintf("sink: {nats: {servers: [%q]}}\n    checkpoint: {nats: {}}", r.broker.url()))
	r.elect()
	all := r.replicas(2)
	e := newEyes(r, nil)
	e.Servers = map[string]string{"a": all[0].server, "b": all[1].server}
	first, configured := leader(t, all, nil), r.server
	r.server = first.server
	e.ready(2)

	leases := r.kube.CoordinationV1().Leases("default")
	e.During(func() {
		stranger := []byte(`{"spec":{"holderIdentity":"a-stranger","leaseDurationSeconds":3600}}`)
		must.Get(leases.Patch(t.Context(), "kube-eventbridge", types.MergePatchType, stranger, metav1.PatchOptions{}))(t)
		e.eventually("the leader to see that", func() bool { return !first.leads() })
		e.Hold(5)
	}, func() {
		require.NoError(t, leases.Delete(t.Context(), "kube-eventbridge", metav1.DeleteOptions{}))
		r.server = leader(t, all, nil).server
		e.ready(1)
	}, "KubeEventbridgeNobodyLeads")

	replaced(t, r.config, r.config, "cluster: e2e", "cluster: other", "leaderElection: {",
		"leaderElection: {resourceName: another, ", "checkpoint: {nats: {}}", "checkpoint: {nats: {bucket: other}}")
	e.During(func() {
		r.server = configured
		stray := r.replica()
		e.Servers["c"] = stray.server
		leader(t, []*replica{stray}, nil)
		r.server = stray.server
		e.ready(6)
		stray.stop()
		delete(e.Servers, "c")
	}, func() { e.Hold(12) }, "KubeEventbridgeSeveralLead") // for five minutes the last that was seen of it counts
	e.Judge()
}

// Faults of what the API server remembers: history that it has no more, and another one that only an audit finds.
func TestRunbook_alerts_fire_on_history_that_is_lost_or_another(t *testing.T) {
	rig.Parallel(t, rig.All)
	r := newRig(t, "[]")
	r.configureSink(`[{resource: configmaps, namespaces: [default]}]`,
		fmt.Sprintf("sink: {nats: {servers: [%q]}}\n    audit: {interval: 1m}", r.broker.url()))
	e := newEyes(r, nil)
	for _, name := range []string{"stays", "changes", "goes"} {
		r.configMap("default", name, nil)
	}
	r.run()
	e.ready(2)
	e.During(func() { e.forget() }, func() { e.Hold(35) }, "KubeEventbridgeGap")

	backup := filepath.Join(t.TempDir(), "backup")
	require.NoError(t, r.api.Snapshot(t.Context(), backup))
	e.During(func() { e.revive(backup) }, func() { e.Hold(125) }, "KubeEventbridgeAuditDifferences")
	e.Also("KubeEventbridgeGap", "KubeEventbridgeHistoryRestored")
	e.Judge()
}

// forget has the API server, and etcd, forget what the bridge has not read.
func (e *eyes) forget() {
	e.t.Helper()
	e.bridge.stop()
	e.patch("default", "changes", `{"data":{"a":"1"}}`)
	last := e.patch("default", "changes", `{"data":{"a":"2"}}`)
	require.NoError(e.t, e.api.KillAPIServer())
	require.NoError(e.t, e.api.Compact(context.WithoutCancel(e.t.Context())))
	require.NoError(e.t, e.api.StartAPIServer(context.WithoutCancel(e.t.Context())))
	e.run()
	e.Told("gaps_total", func(v float64) bool { return v == 1 })
	e.ready(10)
	log := e.awaitStory("default/changes", "added updated")
	if n := count(log, "gap"); n != 1 || log[len(log)-1].rv != last.ResourceVersion {
		e.t.Errorf("there are %d gaps, and the log ends with %s of %s", n, log[len(log)-1].rv, log[len(log)-1].key)
	}
}

// revive restores etcd while the bridge is away, so that only an object which it knows as deleted tells: nothing that
// is in the log as living is otherwise, and versions are as new as before.
func (e *eyes) revive(backup string) {
	e.t.Helper()
	e.remove("default", "goes")
	log := e.awaitStory("default/goes", "added deleted")
	e.bridge.stop()
	newest := e.number(log[len(log)-1].rv)
	require.NoError(e.t, e.api.Restore(context.WithoutCancel(e.t.Context()), backup, false))
	for i := 0; e.number(e.configMap("kube-system", fmt.Sprint("later-", i), nil).ResourceVersion) <= newest; i++ {
	}
	e.run()
	e.ready(5)
	e.configMap("default", "next", nil) // an audit says nothing of what is newer than the position: this moves it
	e.configMap("default", "last", nil)
	e.Told("audit_differences_total", func(v float64) bool { return v == 1 })
	e.awaitStory("default/goes", "added deleted added")
	e.ready(5)
}

func (r *fixture) number(version string) uint64 {
	r.t.Helper()
	return must.Get(strconv.ParseUint(version, 10, 64))(r.t)
}
