// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/waiting"
)

// object is what a worker has when it looks at object a.
func (g *rig) object() *object {
	row, id, _ := g.table.Find(keys.Key{Namespace: "shop", Name: "a"})
	return &object{run: g.run, id: id, row: row, res: g.selection.at(row.Resource)}
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
