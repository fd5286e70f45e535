// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"math"
	"testing"
	"time"
)

func TestFlow_is_the_average_of_the_last_samples(t *testing.T) {
	var f flow
	at := time.Unix(1_764_000_000, 0)
	if got := f.perSecond(7, at); got != 0 {
		t.Errorf("without a sample it is %v", got)
	}
	total := 100.0 // from before
	f.observe(total, at)
	for second, c := range []struct{ more, want float64 }{
		{0, 0}, {10, 5}, {10, 20. / 3}, {0, 5}, {0, 4}, {0, 20. / 6}, {0, 20. / 7}, {0, 20. / 8}, {0, 20. / 9}, {0, 2}, {0, 2}, {0, 1}, {0, 0}, {0, 0},
	} {
		at = at.Add(time.Second)
		total += c.more
		if got := f.perSecond(total, at); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("after %d seconds it is %v, want %v", second+1, got, c.want)
		}
		f.observe(total, at)
	}
	if want := time.Unix(1_764_000_003, 0); !f.last().Equal(want) {
		t.Errorf("the last was at %v, want %v", f.last(), want)
	}
	// What was asked at once after the first sample is no burst.
	var young flow
	young.observe(0, at)
	if got := young.perSecond(3, at.Add(time.Millisecond)); got != 3 {
		t.Errorf("3 in a millisecond are %v a second", got)
	}
}
