// SPDX-License-Identifier: Apache-2.0

package health

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestRate_is_the_average_of_the_last_samples(t *testing.T) {
	var r Rate
	at := time.Unix(1_764_000_000, 0)
	assert.EqualValues(t, 0, r.PerSecond(7, at), "without a sample")
	total := 100.0 // from before
	r.Sample(total, at)
	for second, c := range []struct{ more, want float64 }{
		{0, 0},
		{10, 5},
		{10, 20. / 3},
		{0, 5},
		{0, 4},
		{0, 20. / 6},
		{0, 20. / 7},
		{0, 20. / 8},
		{0, 20. / 9},
		{0, 2},
		{0, 2},
		{0, 1},
		{0, 0},
		{0, 0},
	} {
		at = at.Add(time.Second)
		total += c.more
		got := r.PerSecond(total, at)
		assert.LessOrEqual(t, math.Abs(got-c.want), 1e-9, "after %d seconds it is %v, want %v", second+1, got, c.want)
		r.Sample(total, at)
	}
	want := time.Unix(1_764_000_003, 0)
	assert.True(t, r.Last().Equal(want), "the last was at %v, want %v", r.Last(), want)
	// What was asked at once after the first sample is no burst.
	var young Rate
	young.Sample(0, at)
	got := young.PerSecond(3, at.Add(time.Millisecond))
	assert.EqualValues(t, 3, got, "3 in a millisecond are %v a second", got)
}
