// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"reflect"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

func TestPeeker_follows_what_is_committed_and_leaves_the_owner_alone(t *testing.T) {
	f := newFake(3)
	p := &Peeker{cfg: Config{Topic: "checkpoints"}.withDefaults(audit), broker: f, close: func() {}}
	peek := func() map[string]checkpoint.Stream {
		t.Helper()
		streams, err := p.Peek(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return streams
	}
	if got := peek(); len(got) != 0 {
		t.Errorf("an empty topic has %v", got)
	}
	s := mustOpen(t.Context(), t, f)
	want := emptyState()
	// Small commits, and some that do not fit into one batch.
	for n, rows := range []int{1, 10, 3000, 1, 3000, 0, 5} {
		b := manyRows(rows, n)
		b.Streams = position(n).Streams
		mustCommit(t.Context(), t, s, b)
		want = apply(want, b)
		if got := peek(); !reflect.DeepEqual(got, want.Streams) {
			t.Errorf("after commit %d: %v, want %v", n+1, got, want.Streams)
		}
		if n := len(p.read.rows); n != 0 {
			t.Errorf("it keeps rows of %d streams", n)
		}
	}
	from := p.read.next
	if peek(); p.read.next != from {
		t.Error("it has read again what it knows")
	}
	s = mustOpen(t.Context(), t, f) // another process takes over
	b := manyRows(2, 9)
	b.Streams = position(9).Streams
	mustCommit(t.Context(), t, s, b)
	if got, want := peek(), apply(want, b).Streams; !reflect.DeepEqual(got, want) {
		t.Errorf("after another process: %v, want %v", got, want)
	}
}
