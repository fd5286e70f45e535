// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLanes_give_the_turn_to_one_marker_at_a_time(t *testing.T) {
	l := NewLanes[string]()
	enter := func(subject, marker string, want uint64, wantOK bool) {
		t.Helper()
		last, ok := l.Enter(subject, marker)
		assert.Equal(t, wantOK, ok, "%s enters", marker)
		assert.Equal(t, want, last, "%s follows", marker)
	}
	leave := func(place uint64, want string) {
		t.Helper()
		next, _ := l.Leave("gap", place)
		assert.Equal(t, want, next)
	}
	enter("gap", "a", 0, true)
	enter("gap", "a", 0, true) // it is tried again
	enter("gap", "b", 0, false)
	enter("gap", "c", 0, false)
	enter("resync", "d", 0, true)
	leave(7, "b")
	enter("gap", "e", 0, false)
	enter("gap", "b", 7, true)
	leave(0, "c") // b has no place yet
	enter("gap", "c", 7, true)
	leave(9, "e")
	enter("gap", "e", 9, true)
	leave(8, "")
	enter("gap", "f", 9, true)
}
