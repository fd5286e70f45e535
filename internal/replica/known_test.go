// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/bodies"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/plan"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/replicatest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/waiting"
)

// object is what a worker has when it looks at object a.
func (g *rig) object() *object {
	row, id, _ := g.table.Find(keys.Key{Namespace: "shop", Name: "a"})
	return &object{run: g.run, id: id, row: row, res: g.selection.At(row.Resource)}
}

// A log that was replaced has another event at a position, until the reader notices it.
func TestDesired_is_only_of_the_event_that_was_learned(t *testing.T) {
	g := newRig(t, nil)
	g.tell(is("a", at(1, 10)))
	g.bodies.Drop(1)
	wanted, _, _ := g.object().desired(t.Context())
	require.NotNil(t, wanted)
	g.log.Replace(is("a", at(1, 9)))
	wanted, _, _ = g.object().desired(t.Context())
	assert.Nil(t, wanted, "an older state")
	assert.Equal(t, string(waiting.BodyMissing), g.parked.Reason(0))
}

func TestOutstanding_keeps_what_was_read_while_a_worker_was_at_the_object(t *testing.T) {
	g := newRig(t, nil)
	g.tell(is("a", at(1, 10)))
	o := g.object()
	g.tell(is("a", at(1, 11)))
	o.settle()
	marks, pending, _ := g.outstanding.State()
	assert.Equal(t, 1, pending)
	assert.Empty(t, marks)
	g.object().settle()
	marks, pending, _ = g.outstanding.State()
	assert.Zero(t, pending)
	assert.Equal(t, event.Marks{0: 2}, marks)
}

// One object that waits for an answer does not make the others need memory.
func TestKnown_does_not_grow_behind_an_object_that_is_not_handled(t *testing.T) {
	g := newRig(t, nil)
	g.tell(is("stuck", at(1, 1)))
	for i := range 2000 {
		g.tell(is("a", at(1, uint64(10+i))))
		g.object().settle()
	}
	assert.Less(t, g.outstanding.Kept(), 100)
	assert.Less(t, g.bodies.Kept(), 100)
	marks, pending, _ := g.outstanding.State()
	assert.Equal(t, 1, pending)
	assert.Empty(t, marks, "nothing before the first event is handled")
}

func TestParked_objects_need_no_bodies(t *testing.T) {
	g := newRig(t, nil)
	g.tell(is("a", at(1, 10)))
	g.object().park(waiting.Denied, "")
	assert.Zero(t, g.bodies.Kept())
}

// Two names of one cluster are two clusters to the file. Whatever it says of objects of others, these are the source's.
func TestExisting_ends_a_replica_that_would_write_its_source(t *testing.T) {
	for _, existing := range []plan.Existing{plan.Refuse, plan.Adopt, plan.Overwrite} {
		g := newRig(t, func(c *Config) { c.Existing = existing })
		g.tell(is("a", at(1, 10)))
		o := g.object()
		wanted, uid, _ := o.desired(t.Context())
		clean.Annotate(wanted, "", uid, "")
		assert.Equal(t, waits, o.existing(t.Context(), keys.Actual{UID: uidOf("a"), Version: "10"}, wanted))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := g.ends(ctx)
		require.ErrorIs(t, err, errOwnSource)
		assert.ErrorContains(t, err, "it has configmaps shop/a with the uid that the log tells; name the cluster")
		assert.Empty(t, g.parked.ByReason())
	}
}

func TestStatus_says_why_a_replica_has_ended(t *testing.T) {
	g := newRig(t, nil)
	cfg := *g.cfg
	cfg.OpenLog = func(bool) (Log, error) { return nil, errOwnSource }
	p := New(cfg)
	require.ErrorIs(t, p.Run(t.Context()), errOwnSource)
	s, running := p.Status()
	assert.False(t, running)
	assert.Equal(t, map[string]string{"replica": errOwnSource.Error()}, s.Texts())
}

func TestDesired_is_nothing_where_a_patch_applies_to_what_is_redacted(t *testing.T) {
	g := newRig(t, nil)
	e := is("a", at(1, 10))
	e.Data = fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","data":{"password":"W3JlZGFjdGVkXQ=="},"metadata":{"name":"a","namespace":"shop","uid":%q,"resourceVersion":"10"}}`, uidOf("a"))
	e.More = map[string]string{"redacted": "true"}
	g.tell(e)
	p := is("a", at(1, 11))
	p.Data = `{"metadata":{"resourceVersion":"11","labels":{"x":"y"}}}`
	p.More = map[string]string{"payload": "merge-patch", "baseversion": "10"}
	g.tell(p)
	g.synced()
	_, id, _ := g.table.Find(keys.Key{Namespace: "shop", Name: "a"})
	row := g.table.Get(id)
	t.Log(row.Desired.Claim, plan.Decide(row.Desired, row.Actual, false, g.cfg.Config))
	o := &object{run: g.run, id: id, row: row, res: g.selection.At(row.Resource)}
	wanted, _, _ := o.desired(t.Context())
	assert.Nil(t, wanted, "would be written: %v", wanted)
}

func TestReconcile_deletes_nothing_by_a_reason_of_before(t *testing.T) {
	g := newRig(t, nil)
	g.tell(is("a", at(1, 10)))
	g.has("a", at(1, 10))
	e := is("a", at(1, 15))
	e.Data = ownedData("a", uidOf("a"))
	g.tell(e)
	g.synced()
	_, id, _ := g.table.Find(keys.Key{Namespace: "shop", Name: "a"})
	g.reconcile(t.Context(), id)
	require.Equal(t, string(waiting.LeftOut), g.parked.Reason(id))
	// made again in the source, as an object of its own; the broker goes away before it is written
	e = is("a", at(1, 20))
	e.UID = "another"
	g.tell(e)
	g.run.bodies = bodies.New(failingLog{g.log})
	before := g.counts.Now()
	g.reconcile(t.Context(), id)
	assert.Equal(t, before, g.counts.Now(), "nothing is sent to the target while the new object cannot be read")
}

func TestDesired_puts_many_patches_together(t *testing.T) {
	for _, n := range []int{99, 100, 101, 150} {
		g := newRig(t, nil)
		g.tell(is("a", at(1, 10)))
		for i := range n {
			e := is("a", at(1, uint64(11+i)))
			e.Data = fmt.Sprintf(`{"metadata":{"resourceVersion":"%d"},"data":{"value":"%d"}}`, 11+i, i)
			e.More = map[string]string{"payload": "merge-patch", "baseversion": fmt.Sprint(10 + i)}
			g.tell(e)
		}
		g.synced()
		_, id, _ := g.table.Find(keys.Key{Namespace: "shop", Name: "a"})
		row := g.table.Get(id)
		o := &object{run: g.run, id: id, row: row, res: g.selection.At(row.Resource)}
		wanted, _, _ := o.desired(t.Context())
		assert.NotNil(t, wanted, "%d patches: %s", n, g.parked.Reason(id))
	}
}

// Two uids that keys.OriginOf does not tell apart.
func TestRemap_does_not_take_another_object_for_the_owner(t *testing.T) {
	const one, two = "0a0a0a0a-0000-4000-8000-00000b214624", "0a0a0a0a-0000-4000-8000-00002843a748"
	require.Equal(t, keys.OriginOf(one), keys.OriginOf(two))
	rules := must.Get(clean.New(clean.Config{Replica: "r", Selected: []string{"shop"}, Owned: clean.Remap}))(t)
	g := newRig(t, func(c *Config) { c.Entries[0].Rules = rules })
	for i, name := range []string{"owner", "stranger"} {
		e := is(name, at(1, uint64(10+i)))
		e.UID = []string{one, two}[i]
		g.tell(e)
		g.table.Observe(keys.Key{Namespace: "shop", Name: name}, keys.Actual{
			Owner: keys.Ours, UID: uidOf(name), Version: "10", Applied: e.Sequence, Origin: keys.OriginOf(e.UID), Digest: 1,
		})
	}
	g.tell(is("a", at(1, 20)))
	missing := g.object().remap(map[string]any{"metadata": map[string]any{"ownerReferences": []any{
		map[string]any{"kind": "ConfigMap", "name": "owner", "uid": one},
	}}})
	assert.Equal(t, "waits for its owner ConfigMap/owner", missing)
}

// failingLog does not answer.
type failingLog struct{ *replicatest.Log }

func (failingLog) At(context.Context, uint64) (*event.Message, error) {
	return nil, fmt.Errorf("the broker is away")
}
