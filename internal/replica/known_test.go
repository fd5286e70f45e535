// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/plan"
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
		o.annotate(wanted, uid)
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
