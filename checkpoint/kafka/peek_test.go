// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/storetest"
)

func TestPeeker_keeps_the_contract(t *testing.T) {
	f := newFake(3)
	p := &Peeker{cfg: Config{Topic: "checkpoints"}.withDefaults(storetest.Identity), broker: f, close: func() {}}
	storetest.Peek(t, p, func() storetest.Store { return mustOpen(t.Context(), t, f) })
	n := len(p.read.rows)
	assert.Equal(t, 0, n, "it keeps rows of %d streams", n)
	from := p.read.next
	_, err := p.Peek(t.Context())
	assert.True(t, err == nil && p.read.next == from, "it has read again what it knows (%v)", err)
}
