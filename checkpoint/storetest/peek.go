// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

// Peek checks that a [checkpoint.Peeker] keeps its contract. Both are of the same checkpoint; open takes it over from whoever has opened it before.
func Peek(t *testing.T, peeker checkpoint.Peeker, open func() Store) {
	t.Helper()
	want := Empty()
	check := func(when string) {
		t.Helper()
		got, err := peeker.Peek(t.Context())
		if err != nil || !maps.Equal(got, want.Streams) {
			t.Fatalf("%s: %v, %v, want %v", when, got, err, want.Streams)
		}
		got["added by the caller"] = checkpoint.Stream{} // who may keep the map
	}
	check("before anything was written")
	for process := range 3 {
		s := open()
		// Small commits, and some that are more than fits one message or batch.
		for n, rows := range []int{0, 1, 10, 5000, 1, 0, 5000, 3} {
			b := &checkpoint.Batch{
				Identity: Identity,
				Streams:  map[string]checkpoint.Stream{},
				Put:      map[string]map[string]checkpoint.Row{},
			}
			name := fmt.Sprintf("pods.v1/n%d", n%3)
			b.Streams[name] = checkpoint.Stream{Position: fmt.Sprint(process, n), Kind: "Pod", Namespaced: true}
			b.Put[name] = map[string]checkpoint.Row{}
			for i := range rows {
				b.Put[name][fmt.Sprintf("n%d/object-%d", n%3, i)] = checkpoint.Row{UID: "u", ResourceVersion: fmt.Sprint(n)}
			}
			if n == 5 {
				b.Forget = []string{"pods.v1/n0"}
			}
			require.NoError(t, s.Commit(t.Context(), b))
			Apply(want, b)
			if n%3 != 1 { // else several commits between two looks
				check(fmt.Sprintf("process %d, commit %d", process, n))
			}
		}
	}
	check("at the end")
}
