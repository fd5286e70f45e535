// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/stretchr/testify/require"
)

// Faults of what the API server remembers: history that it has no more, and another one that only an audit finds.
func TestRunbook_alerts_fire_on_history_that_is_lost_or_another(t *testing.T) {
	t.Parallel()
	rig.Tier(t, rig.All)
	r := newRig(t, "[]")
	r.configureSink(`[{resource: configmaps, namespaces: [default]}]`, fmt.Sprintf("sink: {nats: {servers: [%q]}}\n    audit: {interval: 1m}", r.broker.url()))
	e := newEyes(r, nil)
	for _, name := range []string{"stays", "changes", "goes"} {
		r.configMap("default", name, nil)
	}
	r.run()
	e.ready(2)
	e.during(func() { e.forget() }, func() { e.hold(35) }, "KubeEventbridgeGap")

	backup := filepath.Join(t.TempDir(), "backup")
	require.NoError(t, r.api.Snapshot(t.Context(), backup))
	e.during(func() { e.revive(backup) }, func() { e.hold(125) }, "KubeEventbridgeAuditDifferences")
	e.also("KubeEventbridgeGap", "KubeEventbridgeHistoryRestored")
	e.judge()
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
	e.told("gaps_total", func(v float64) bool { return v == 1 })
	e.ready(10)
	log := e.awaitStory("default/changes", "added updated")
	if n := count(log, "gap"); n != 1 || log[len(log)-1].rv != last.ResourceVersion {
		e.t.Errorf("there are %d gaps, and the log ends with %s of %s", n, log[len(log)-1].rv, log[len(log)-1].key)
	}
}

// revive restores etcd while the bridge is away, so that only an object which it knows as deleted tells: nothing that is in the log as living is otherwise, and versions are as new as before.
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
	e.told("audit_differences_total", func(v float64) bool { return v == 1 })
	e.awaitStory("default/goes", "added deleted added")
	e.ready(5)
}

func (r *fixture) number(version string) uint64 {
	r.t.Helper()
	n := must.Get(strconv.ParseUint(version, 10, 64))(r.t)
	return n
}
