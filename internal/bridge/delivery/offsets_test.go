// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

func TestOffsets_never_pass_what_is_under_way(t *testing.T) {
	m := NewOffsets()
	m.Start(map[int32]uint64{0: 10}, map[int32]string{})
	a := m.Begin()
	b := m.Begin()
	m.End(b, sink.Receipt{Sequence: 13}, "b")
	for range 3 {
		got := m.Take()[0]
		require.EqualValues(t, 10, got, "the offset is %d with an event under way since 10", got)
	}
	c := m.Begin()
	m.End(a, sink.Receipt{Sequence: 12}, "a")
	got := m.Take()[0]
	require.True(t, got <= 13, "the offset is %d with an event under way since 13", got)
	m.End(c, sink.Receipt{Sequence: 14, Duplicate: true}, "c")
	m.Take()
	got = m.Take()[0]
	assert.EqualValues(t, 14, got, "the offset is %d with nothing under way, want 14", got)
}
