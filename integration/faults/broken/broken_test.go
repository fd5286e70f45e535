// SPDX-License-Identifier: Apache-2.0

package broken

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/edit"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// Whether the campaign finds them takes minutes, and is for make test-faults.
func TestBridges_are_of_this_tree(t *testing.T) {
	faults := map[string]bool{}
	for _, broker := range []string{world.NATS, world.Kafka} {
		for _, f := range world.Catalogue(broker, true, true) {
			faults[f.Name] = true
		}
	}
	for name, b := range Bridges() {
		assert.NoError(t, must.Err(edit.Apply("../../..", b.Changes...)), name)
		for _, f := range b.Faults {
			assert.True(t, faults[f], "%s: there is no fault %q", name, f)
		}
	}
}
