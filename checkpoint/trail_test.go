// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"maps"
	"reflect"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// at returns the waypoint at marks of partitions 0, 1, …
func at(marks ...uint64) Waypoint {
	w := Waypoint{Marks: map[int32]uint64{}, Positions: map[string]string{"pods.v1": ""}}
	for partition, mark := range marks {
		w.Marks[int32(partition)] = mark
		w.Positions["pods.v1"] += strconv.FormatUint(mark, 10) + "."
	}
	return w
}

func TestBefore(t *testing.T) {
	trail := []Waypoint{at(1, 1), at(5, 1), at(5, 9)}
	for _, c := range []struct {
		name  string
		trail []Waypoint
		ends  map[int32]uint64
		want  Waypoint
		found bool
	}{
		{"everything is there", trail, map[int32]uint64{0: 5, 1: 9}, at(5, 9), true},
		{"more than that", trail, map[int32]uint64{0: 50, 1: 90, 2: 1}, at(5, 9), true},
		{"one partition lost its end", trail, map[int32]uint64{0: 5, 1: 8}, at(5, 1), true},
		{"the other one did", trail, map[int32]uint64{0: 4, 1: 9}, at(1, 1), true},
		{"a partition is empty", trail, map[int32]uint64{0: 5}, Waypoint{}, false},
		{"all of it is gone", trail, nil, Waypoint{}, false},
		{"no trail", nil, map[int32]uint64{0: 5}, Waypoint{}, false},
		{"from before anything was published", []Waypoint{{}, at(5, 9)}, nil, Waypoint{}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, found := Before(c.trail, c.ends); found != c.found || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, %v, want %+v, %v", got, found, c.want, c.found)
			}
		})
	}
}

func TestExtend_keeps_what_the_log_still_has(t *testing.T) {
	trail := []Waypoint{at(1, 1), at(5, 1), at(5, 9)}
	for name, c := range map[string]struct{ w, previous Waypoint }{
		"more messages":              {at(6, 9), at(5, 9)},
		"no more messages":           {at(5, 9), at(5, 1)},
		"the log lost its end":       {at(5, 8), at(5, 1)},
		"and got as many since":      {at(10, 4), at(5, 1)},
		"a partition lost all":       {at(100), Waypoint{}},
		"the log began again":        {at(0, 0), Waypoint{}},
		"nothing is known of it now": {Waypoint{}, Waypoint{}},
	} {
		t.Run(name, func(t *testing.T) {
			c.w.Positions = map[string]string{"pods.v1": "new"}
			got := Extend(trail, c.w)
			assert.Equal(t, c.w, got[len(got)-1], "the newest")
			if before := got[:len(got)-1]; len(before) > 0 != (c.previous.Marks != nil) || len(before) > 0 && !reflect.DeepEqual(before[len(before)-1], c.previous) {
				t.Errorf("before it: %+v, want %+v at the end", before, c.previous)
			}
			assert.Equal(t, []Waypoint{at(1, 1), at(5, 1), at(5, 9)}, trail, "the trail itself was changed")
		})
	}
}

// However much of its end the log loses, up to the age of the oldest waypoint, one is found that is at most three times as far back as it had to be.
func TestTrail_reaches_back_in_proportion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		step := rapid.SampledFrom([]*rapid.Generator[uint64]{rapid.Just(uint64(1)), rapid.Uint64Range(1, 10), rapid.Map(rapid.IntRange(0, 12), func(n int) uint64 { return 1 << n })}).Draw(t, "steps")
		var trail, all []Waypoint
		marks := map[int32]uint64{}
		for range rapid.IntRange(1, 400).Draw(t, "extends") {
			marks[rapid.Int32Range(0, 2).Draw(t, "partition")] += step.Draw(t, "step")
			w := Waypoint{Marks: maps.Clone(marks)}
			all = append(all, w)
			trail = Extend(trail, w)
			require.LessOrEqual(t, len(trail), maxTrail, "waypoints")
			newest, _ := Before(trail, marks)
			require.Equal(t, w, newest, "the newest")
		}
		reaches(t, trail, all)
	})
}

func reaches(t *rapid.T, trail, all []Waypoint) {
	end := total(all[len(all)-1].Marks)
	oldest := end - total(trail[0].Marks)
	for _, w := range all {
		age := end - total(w.Marks)
		if age > oldest {
			continue
		}
		found, ok := Before(trail, w.Marks)
		got := end - total(found.Marks)
		require.True(t, ok && got <= 3*age, "before age %d there is %d (%v)", age, got, ok)
	}
}

// Of a log that grows steadily the trail has ages that about double.
func TestTrail_reaches_back_hundreds_of_steps(t *testing.T) {
	for _, step := range []uint64{1, 1000} {
		var trail []Waypoint
		for n := uint64(1); n <= 20_000; n++ {
			trail = Extend(trail, at(n*step))
			steps := (n*step - trail[0].Marks[0]) / step
			require.GreaterOrEqual(t, steps, min(n-1, 400), "after %d steps it reaches back", n)
		}
	}
}
