// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
)

func TestLearn_tells_a_whole_object_from_a_part_of_one(t *testing.T) {
	for name, c := range map[string]struct {
		op   event.Op
		data string
		more map[string]string
		want keys.Claim
	}{
		"a state":                {op: event.Updated, want: keys.Whole},
		"a redacted state":       {op: event.Updated, more: map[string]string{"redacted": "true"}, want: keys.Redacted},
		"metadata alone":         {op: event.Added, more: map[string]string{"payload": "metadata"}, want: keys.Reduced},
		"a state kept elsewhere": {op: event.Added, more: map[string]string{"datasize": "3000000"}, want: keys.Reduced},
		"a state that was refused": {
			op: event.Rejected, data: `{"type":"io.kube-eventbridge.resource.updated.v1"}`, want: keys.Rejected,
		},
		"an end that was refused": {
			op: event.Rejected, data: `{"type":"io.kube-eventbridge.resource.deleted.v1"}`, want: keys.Gone,
		},
		"an end": {op: event.Deleted, want: keys.Gone},
		"what is not selected any more": {
			op: event.Deleted, more: map[string]string{"reason": "deselected"}, want: keys.Deselected,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, nil)
			e := is("a", at(1, 10))
			e.Op, e.More, e.Data = c.op, c.more, c.data
			g.tell(e)
			assert.Equal(t, c.want, g.row("a").Desired.Claim)
		})
	}
}
