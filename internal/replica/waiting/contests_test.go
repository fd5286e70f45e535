// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestContests_are_three_changes_back_in_ten_minutes(t *testing.T) {
	c, now := NewContests(), time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for range 2 {
		c.Add(1, now)
		assert.False(t, c.Has(1, now))
	}
	c.Add(1, now.Add(9*time.Minute))
	assert.True(t, c.Has(1, now.Add(9*time.Minute)))
	assert.False(t, c.Has(2, now), "another object")
	assert.False(t, c.Has(1, now.Add(10*time.Minute)), "the first two are long past")
}
