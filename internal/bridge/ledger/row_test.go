// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

// Consumers have the state that was published first.
func TestApply_keeps_when_the_published_state_was_written(t *testing.T) {
	known := checkpoint.Row{UID: "u1", ResourceVersion: "5", Epoch: 1, Version: 5, Written: 100}
	for _, again := range []int64{0, 100, 200} {
		next := known
		next.Written = again
		row := Apply(known, true, next)
		assert.EqualValues(t, 100, row.Written)
	}
	newer := checkpoint.Row{UID: "u1", ResourceVersion: "6", Epoch: 1, Version: 6, Written: 200}
	row := Apply(known, true, newer)
	assert.EqualValues(t, 200, row.Written)
}
