// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLater(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"11", "10", true},
		{"10", "9", true},
		{"10", "10", false},
		{"9", "10", false},
		{"b", "b", false},
		{"a", "b", true}, // which was shown last
		{"1", "b", true},
		{"1", "", true},
	} {
		assert.Equal(t, c.want, later(c.a, c.b), "%q after %q", c.a, c.b)
	}
}
