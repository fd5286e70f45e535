// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/proxy"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// replica is one of several bridges, with ways of its own to the API server, and to the broker if that is a NATS
// server.
type replica struct {
	*bridge
	server      string
	api, broker *proxy.Proxy
}

// elect lets several bridges run with the rig's file.
func (r *fixture) elect() {
	r.t.Helper()
	r.elected = true
	text := must.Get(os.ReadFile(r.config))(r.t)
	require.NoError(r.t, os.WriteFile(r.config, append(text,
		"leaderElection: {resourceNamespace: default, leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 500ms}\n"...),
		0o600))
}

// replicas starts n bridges.
func (r *fixture) replicas(n int) []*replica {
	r.t.Helper()
	all := make([]*replica, n)
	for i := range all {
		all[i] = r.replica()
	}
	return all
}

// replica starts a bridge with the rig's file, in which addresses are its own.
func (r *fixture) replica() *replica {
	r.t.Helper()
	dir := r.t.TempDir()
	at := strings.TrimPrefix(r.api.RESTConfig().Host, "https://")
	p := &replica{server: freeAddress(r.t), api: proxy.ForTest(r.t, at)}
	kubeconfig := must.Get(r.api.Kubeconfig(dir))(r.t)
	replaced(r.t, kubeconfig, kubeconfig, at, p.api.Address())
	file := filepath.Join(dir, "bridge.yaml")
	pairs := []string{r.server, p.server, filepath.Join(r.dir, filepath.Base(kubeconfig)), kubeconfig}
	if r.broker != nil {
		to := strings.TrimPrefix(r.broker.url(), "nats://")
		p.broker = proxy.ForTest(r.t, to)
		pairs = append(pairs, to, p.broker.Address())
	}
	replaced(r.t, r.config, file, pairs...)
	p.bridge = r.startAt(p.server, nil, "run", "--config", file)
	return p
}

// replaced writes a file as another one with texts replaced, each of which has to be there.
func replaced(t *testing.T, from, to string, pairs ...string) {
	t.Helper()
	text := must.Get(os.ReadFile(from))(t)
	for i := 0; i < len(pairs); i += 2 {
		require.Contains(t, string(text), pairs[i], "%s has no %q:\n%s", from, pairs[i], text)
	}
	require.NoError(t, os.WriteFile(to, []byte(strings.NewReplacer(pairs...).Replace(string(text))), 0o600))
}

func (p *replica) leads() bool {
	leads, _ := p.Metric("leader")
	return leads == 1
}

// publishes reports whether a replica leads and has begun to read.
func (p *replica) publishes() bool {
	_, reads := p.Metric("stream_watching")
	return reads && p.leads()
}

// leader waits until one of the replicas leads, another one than but.
func leader(t *testing.T, all []*replica, but *replica) *replica {
	t.Helper()
	var found *replica
	rig.Poll(t, "a leader", func() (bool, string) {
		for _, p := range all {
			if p != but && p.publishes() {
				found = p
			}
		}
		return found != nil, "no replica publishes"
	})
	return found
}

// change is what happens to the replica that leads. It returns those that run then, and who of them must not lead any
// more.
type change struct {
	name string
	do   func(r *fixture, all []*replica, leads *replica) (now []*replica, former *replica)
}

func without(all []*replica, one *replica) []*replica {
	return slices.DeleteFunc(slices.Clone(all), func(p *replica) bool { return p == one })
}

var changes = []change{
	{"killed", func(r *fixture, all []*replica, leads *replica) ([]*replica, *replica) {
		leads.kill()
		return append(without(all, leads), r.replica()), leads
	}},
	{"stopped", func(r *fixture, all []*replica, leads *replica) ([]*replica, *replica) {
		leads.stop()
		return append(without(all, leads), r.replica()), leads
	}},
	// As by a machine that swaps, or a virtual one that is moved: it wakes when another one leads, with changes to
	// publish.
	{"asleep", func(r *fixture, all []*replica, leads *replica) ([]*replica, *replica) {
		leads.signal(syscall.SIGSTOP)
		leader(r.t, all, leads)
		leads.signal(syscall.SIGCONT)
		return all, leads
	}},
	{"cut off from the API server", func(r *fixture, all []*replica, leads *replica) ([]*replica, *replica) {
		leads.api.Sever()
		leader(r.t, all, leads)
		leads.api.Open()
		return all, leads
	}},
	// It keeps the Lease: no process knows that another one would reach the broker. Kafka's brokers tell clients where
	// they are, past any way to them.
	{"cut off from the broker, if that is NATS", func(r *fixture, all []*replica, leads *replica) ([]*replica, *replica) {
		if leads.broker != nil {
			leads.broker.Sever()
			r.eventually("the leader to miss the broker", func() bool {
				ready, there := leads.Metric("broker_ready")
				return there && ready == 0
			})
			leads.broker.Open()
		}
		return all, nil
	}},
	// Whoever is first makes another one, which may be the same.
	{"without its Lease, which was deleted", func(r *fixture, all []*replica, _ *replica) ([]*replica, *replica) {
		require.NoError(r.t, r.kube.CoordinationV1().Leases("default").Delete(r.t.Context(), "kube-eventbridge",
			metav1.DeleteOptions{}))
		return all, nil
	}},
	{
		"without its Lease, which a stranger has taken",
		func(r *fixture, all []*replica, leads *replica) ([]*replica, *replica) {
			stranger := []byte(`{"spec":{"holderIdentity":"a-stranger"}}`)
			_, err := r.kube.CoordinationV1().Leases("default").Patch(r.t.Context(), "kube-eventbridge", types.MergePatchType,
				stranger, metav1.PatchOptions{})
			require.NoError(r.t, err)
			r.eventually("the leader to see that", func() bool { return !leads.leads() })
			return all, nil
		},
	},
}

func TestElection_loses_repeats_and_misorders_nothing_whatever_becomes_of_the_leader(t *testing.T) {
	rig.Parallel(t, rig.All)
	takeTurns(newBucketRig(t), 1, 250)
}

// The large numbers, and Kafka, whose leaders the campaign of faults changes too.
func TestElection_many_lose_repeat_and_misorder_nothing(t *testing.T) {
	rig.Parallel(t, rig.Nightly)
	takeTurns(newBucketRig(t), 2, 1000)
	takeTurns(newKafkaRig(t, watched), 2, 1000)
}

// takeTurns has replicas take turns while objects change, some rounds of all changes of the leader, and judges the log.
func takeTurns(f *fixture, rounds, each int) {
	t := f.t
	t.Helper()
	f.elect()
	r := f.record()
	all := r.replicas(3)
	leader(t, all, nil)
	terms := 1
	for range rounds {
		for _, c := range changes {
			before := int(r.changes.Load())
			driving := r.driver.start(t.Context(), each)
			r.reaches(t, before+each/4)
			r.await("an event of the leader", func(log []entry) bool { return len(writers(log)) >= terms })
			now := leader(t, all, nil)
			began := time.Now()
			var former *replica
			if all, former = c.do(f, all, now); former != nil {
				terms++
			}
			r.bridge = leader(t, all, former).bridge
			t.Logf("%s: one publishes after %v", c.name, time.Since(began).Round(10*time.Millisecond))
			require.NoError(t, driving.Wait())
		}
	}
	last := leader(t, all, nil)
	r.bridge, r.server = last.bridge, last.server
	r.settle("default")
	for _, p := range append(without(all, last), last) {
		p.stop()
		for line := range strings.Lines(p.stderr()) {
			// client-go reports an answer that is cut off in its middle, and returns it too.
			if !strings.Contains(line, "Unexpected error when reading response body") {
				assert.NotContains(t, line, `"level":"ERROR"`, "a replica")
			}
		}
	}
	seen := writers(r.judge())
	// Each leader that was replaced had changes to publish. One may have been too short for any.
	assert.GreaterOrEqual(t, len(seen), terms-1,
		"the log has events of %d terms, and there were %d", len(seen), terms)
}

// writers are the terms whose leaders have published an event of an object.
func writers(log []entry) map[string]bool {
	terms := map[string]bool{}
	for _, e := range log {
		if e.key != "" {
			terms[e.attribute("writerterm")] = true
		}
	}
	return terms
}

// Events are not in the API server's watch cache: after a compaction of etcd no reader can see what lay before it.
func TestTakeover_reads_what_the_API_server_can_still_show_and_announces_the_rest(t *testing.T) {
	rig.Parallel(t, rig.All)
	r := newRig(t, "[]")
	r.configureSink(`[{resource: events, namespaces: [default]}]`,
		fmt.Sprintf("sink: {nats: {servers: [%q]}}\n    checkpoint: {nats: {}}", r.broker.url()))
	r.elect()
	events := r.kube.CoreV1().Events("default")
	create := func(name string) {
		_, err := events.Create(t.Context(), &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: name}, InvolvedObject: corev1.ObjectReference{
				Namespace: "default", Name: "x",
				Kind: "Pod",
			},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	const n = 50
	signal := func(all []*replica, s os.Signal) {
		for _, p := range all {
			p.signal(s)
		}
	}
	// change has all replicas asleep while events come, of which most go again, and returns the leader.
	change := func(all []*replica, round string) *replica {
		leads := leader(t, all, nil)
		create(round + "-before")
		r.awaitStory("default/"+round+"-before", "added")
		signal(all, syscall.SIGSTOP)
		for i := range n {
			name := fmt.Sprintf("%s-short-%d", round, i)
			create(name)
			require.NoError(t, events.Delete(t.Context(), name, metav1.DeleteOptions{}))
		}
		create(round + "-lasting")
		return leads
	}
	create("first")
	all := r.replicas(2)

	former := change(all, "shown")
	former.kill()
	all = without(all, former)
	signal(all, syscall.SIGCONT)
	r.bridge = leader(t, all, former).bridge
	// Only one object's events are in order: what was created last may be in the log first.
	for i := range n {
		r.awaitStory(fmt.Sprintf("default/shown-short-%d", i), "added deleted")
	}
	log := r.awaitStory("default/shown-lasting", "added")
	assert.Zero(t, count(log, "gap"), "the API server has shown everything")

	all = append(all, r.replica())
	former = change(all, "forgotten")
	require.NoError(t, r.api.Compact(context.WithoutCancel(t.Context())))
	former.kill()
	signal(without(all, former), syscall.SIGCONT)
	last := leader(t, all, former)
	r.bridge = last.bridge
	log = r.awaitStory("default/forgotten-lasting", "added")
	assert.Equal(t, 1, count(log, "gap"), "the API server has forgotten")
	mustBeUnique(t, log)
	last.stop()
}
