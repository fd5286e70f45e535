// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/guard"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/plan"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/replicatest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/selection"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// memory is a [State] that is not stored.
type memory struct{ guard.Stops }

func (m *memory) Load(context.Context) (guard.Stops, error) { return m.Stops, nil }

func (m *memory) Store(_ context.Context, s guard.Stops) error { m.Stops = s; return nil }

// rig is a run whose log and target a test tells by hand. Nothing of it runs.
type rig struct {
	*run
	t   *testing.T
	log *replicatest.Log
}

// newRig returns a run that selects ConfigMaps of namespace shop. All of the target is listed, and has nothing.
func newRig(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	rules := must.Get(clean.New(clean.Config{Replica: "r", Selected: []string{"shop"}}))(t)
	cfg := Config{
		Name: "r", Cluster: "east", Pipeline: "audit", State: &memory{}, Target: &rest.Config{Host: "http://127.0.0.1:1"},
		Entries: []selection.Entry{{Resource: "configmaps", Namespaces: []string{"shop"}, Rules: rules}},
		Config:  plan.Config{Existing: plan.Refuse, Deletes: true}, Limit: guard.Limit{Count: 5},
	}
	if change != nil {
		change(&cfg)
	}
	cfg.withDefaults()
	g := &rig{t: t, log: &replicatest.Log{}}
	g.run = must.Get(newRun(&cfg, g.log, must.Get(cfg.State.Load(t.Context()))(t)))(t)
	t.Cleanup(func() {
		g.queue.ShutDown()
		g.pruning.Wait()
		g.targets.reading.Wait()
	})
	return g
}

// tell has the run learn events.
func (g *rig) tell(events ...replicatest.Event) {
	g.t.Helper()
	for _, e := range events {
		require.NoError(g.t, learning{g.run}.learn(g.t.Context(), g.log.Message(g.log.Append(e))))
	}
}

// synced says that the target has been listed.
func (g *rig) synced() {
	for _, res := range g.selection.All() {
		namespaces := res.Namespaces(true)
		g.targets.listing.Begin(res.Number, res.Version, namespaces)
		for _, namespace := range namespaces {
			g.targets.listing.SetListed(res.Number, namespace)
		}
	}
}

// has tells that the target has an object of the replica.
func (g *rig) has(name string, applied sequence.Sequence) keys.ID {
	return g.hasIn("shop", name, applied)
}

func (g *rig) hasIn(namespace, name string, applied sequence.Sequence) keys.ID {
	id, _ := g.table.Observe(keys.Key{Namespace: namespace, Name: name}, keys.Actual{
		Owner: keys.Ours, UID: uidOf(name), Version: "10", Applied: applied, Origin: keys.OriginOf(uidOf(name)), Digest: 1,
	})
	return id
}

// allowed reports whether an object may be deleted now.
func (g *rig) allowed(row *keys.Row) bool { return g.deletions.Allowed(row) }

// row returns what is known of an object.
func (g *rig) row(name string) keys.Row {
	row, _, _ := g.table.Find(keys.Key{Namespace: "shop", Name: name})
	return row
}

func uidOf(name string) string {
	return fmt.Sprintf("0a0a0a0a-0000-4000-8000-%012x", name)
}

func at(epoch, version uint64) sequence.Sequence {
	return sequence.Sequence{Epoch: epoch, Version: version}
}

// is tells a state of an object, and ended its end.
func is(name string, s sequence.Sequence) replicatest.Event {
	return replicatest.Event{Op: event.Updated, Namespace: "shop", Name: name, UID: uidOf(name), Sequence: s, Value: "1"}
}

func ended(name string, s sequence.Sequence) replicatest.Event {
	e := is(name, s)
	e.Op, e.Step = event.Deleted, 1
	return e
}

// ofTwo selects namespace bank, too.
func ofTwo(t *testing.T) func(*Config) {
	return func(c *Config) {
		c.Entries[0].Namespaces = []string{"bank", "shop"}
		c.Entries[0].Rules = must.Get(clean.New(clean.Config{Replica: "r", Selected: c.Entries[0].Namespaces}))(t)
	}
}

// lists tells that a stream of the target was listed, in which nothing has changed.
func (g *rig) lists(namespace string) {
	newFeed(g.run, g.selection.All()[0], source.Stream{Namespace: namespace}).listed()
}
