// SPDX-License-Identifier: Apache-2.0

package replicate

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/integration/rules"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// watched are clusters whose replica a Prometheus looks at.
type watched struct {
	*clusters
	*rules.Prometheus
}

// The faults of docs/operations.md, its remedies, and the rules as they are.
func TestRunbook_alerts_fire_on_faults_of_replicas_and_end_by_the_remedy(t *testing.T) {
	c := newClusters(t, "[{resource: configmaps}]")
	c.both("shop")
	create(t, c.from, "shop", "a=1", "b=1", "c=1", "d=1")
	path, server := c.replicaFile("deletes: {limit: 1, minAge: 0s}")
	// What takes minutes elsewhere takes moments here.
	w := &watched{c, rules.NewPrometheus(t, map[string]string{"a": server}, map[string]string{"replicaLagSeconds": "2"})}
	alone := c.startReplica(path, server)
	w.follows("a=1 b=1 c=1 d=1")
	w.Hold(60)
	w.targetAway()
	w.objectInTheWay()
	w.deletesHeld(server)
	alone.Stops()
	w.Servers = c.elected(path, server)
	w.follows("d=1 e=1 taken=1")
	w.Hold(60) // also of a standby
	w.brokerAway()
	w.nobodyLeads()
	w.Judge()
}

// follows waits until the target has what the source has, and the replica has nothing more to do.
func (w *watched) follows(want string) {
	w.t.Helper()
	awaitValues(w.t, w.to, "shop", want)
	w.Told("replica_running", func(v float64) bool { return v == 1 })
	w.Told("replica_lag_seconds", func(v float64) bool { return v == 0 })
}

func (w *watched) late() {
	w.t.Helper()
	w.Told("replica_lag_seconds", func(v float64) bool { return v > 2 })
	w.Hold(8)
}

func (w *watched) targetAway() {
	w.During(func() {
		require.NoError(w.t, w.target.StopAPIServer(context.WithoutCancel(w.t.Context())))
		create(w.t, w.from, "shop", "e=1")
		w.late()
	}, func() {
		require.NoError(w.t, w.target.StartAPIServer(context.WithoutCancel(w.t.Context())))
		w.follows("a=1 b=1 c=1 d=1 e=1")
		w.Hold(2)
	}, "KubeEventbridgeReplicaLagging")
}

func (w *watched) objectInTheWay() {
	w.During(func() {
		create(w.t, w.to, "shop", "taken=theirs")
		create(w.t, w.from, "shop", "taken=1")
		w.Told("replica_parked_objects", func(v float64) bool { return v == 1 })
		w.Hold(32)
	}, func() {
		remove(w.t, w.to, "shop", "taken")
		w.follows("a=1 b=1 c=1 d=1 e=1 taken=1")
		w.Hold(12) // for five minutes the last that was seen counts: the reason is not told of any more
	}, "KubeEventbridgeReplicaObjectsParked")
}

func (w *watched) deletesHeld(server string) {
	w.During(func() {
		remove(w.t, w.from, "shop", "a", "b", "c")
		w.Told("replica_held_deletes", func(v float64) bool { return v == 1 })
		w.Hold(4)
	}, func() {
		code, out := w.command("replicate", "resume", "shop", "--server", server)
		assert.Equal(w.t, 0, code, out)
		assert.Contains(w.t, out, "replica shop resumed\n")
		w.follows("d=1 e=1 taken=1")
		w.Hold(2)
	}, "KubeEventbridgeReplicaHeld")
}

func (w *watched) brokerAway() {
	w.During(func() {
		w.nats.Stop()
		w.late()
	}, func() {
		require.NoError(w.t, w.nats.Start())
		w.follows("d=1 e=1 taken=1")
		w.Hold(2)
	}, "KubeEventbridgeReplicaLagging")
}

func (w *watched) nobodyLeads() {
	leases := w.to.CoordinationV1().Leases("default")
	w.During(func() {
		stranger := []byte(`{"spec":{"holderIdentity":"a-stranger","leaseDurationSeconds":3600}}`)
		must.Get(leases.Patch(w.t.Context(), "kube-eventbridge-replicas", types.MergePatchType, stranger,
			metav1.PatchOptions{}))(w.t)
		rig.Poll(w.t, "no process to keep the replica", func() (bool, string) {
			return w.Most("replica_running") == 0, "one does"
		})
		w.Hold(6)
	}, func() {
		require.NoError(w.t, leases.Delete(w.t.Context(), "kube-eventbridge-replicas", metav1.DeleteOptions{}))
		w.follows("d=1 e=1 taken=1")
		w.Hold(2)
	}, "KubeEventbridgeReplicaNotRunning")
}

// elected starts two processes of a file, one of which leads, and returns where they serve.
func (c *clusters) elected(path, server string) map[string]string {
	c.t.Helper()
	text := must.Get(os.ReadFile(path))(c.t)
	servers := make(map[string]string)
	for _, name := range []string{"b", "c"} {
		servers[name] = fmt.Sprintf("127.0.0.1:%d", must.Get(controlplane.FreePort())(c.t))
		other := bytes.ReplaceAll(text, []byte(server), []byte(servers[name]))
		other = append(other, "leaderElection: {resourceNamespace: default, leaseDuration: 3s, renewDeadline: 2s, "+
			"retryPeriod: 500ms}\n"...)
		file := filepath.Join(c.t.TempDir(), name+".yaml")
		require.NoError(c.t, os.WriteFile(file, other, 0o600))
		c.startReplica(file, servers[name])
	}
	return servers
}
