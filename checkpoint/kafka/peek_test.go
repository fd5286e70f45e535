// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/storetest"
)

func TestPeeker_keeps_the_contract(t *testing.T) {
	f := newFake(3)
	p := &Peeker{cfg: Config{Topic: "checkpoints"}.withDefaults(storetest.Identity), broker: f, close: func() {}}
	storetest.Peek(t, p, func() storetest.Store { return mustOpen(t.Context(), t, f) })
	if n := len(p.read.rows); n != 0 {
		t.Errorf("it keeps rows of %d streams", n)
	}
	from := p.read.next
	if _, err := p.Peek(t.Context()); err != nil || p.read.next != from {
		t.Errorf("it has read again what it knows (%v)", err)
	}
}
