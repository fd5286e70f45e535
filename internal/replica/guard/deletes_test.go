// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestLimit(t *testing.T) {
	assert.Equal(t, 5, Limit{Percent: 20}.Of(3), "a small replica may lose a few objects")
	assert.Equal(t, 200, Limit{Percent: 20}.Of(1000))
	assert.Equal(t, 0, Limit{}.Of(1000))
}

func TestDeletes_hold_above_the_limit_until_they_are_released(t *testing.T) {
	d := NewDeletes(Limit{Count: 10}, time.Time{}, false)
	for i := range 10 {
		d.Went(noon.Add(time.Duration(i) * time.Minute))
	}
	assert.True(t, d.Allows(noon.Add(9*time.Minute), 100))
	assert.Zero(t, d.Confirmed(), "nothing waits for a person")
	d.Went(noon.Add(10 * time.Minute))
	assert.False(t, d.Allows(noon.Add(10*time.Minute), 100), "the eleventh in an hour")
	assert.False(t, d.Allows(noon, 100), "once it holds, it holds for all")
	assert.True(t, d.Held())

	held := NewDeletes(Limit{Count: 1000}, time.Time{}, true)
	assert.False(t, held.Allows(noon, 100), "so it does in the next process, whatever the limit is there")

	again := NewDeletes(Limit{Count: 10}, d.Confirmed(), false)
	d.Release()
	for _, d := range []*Deletes{d, again} {
		assert.False(t, d.Held())
		assert.True(t, d.Allows(noon.Add(10*time.Minute), 100), "a person has released it, also for the next process")
		for range 11 {
			d.Went(noon.Add(20 * time.Minute))
		}
		assert.False(t, d.Allows(noon.Add(20*time.Minute), 100), "what comes behind is counted")
	}
}

func TestDeletes_release_only_what_a_person_was_told(t *testing.T) {
	d := NewDeletes(Limit{Count: 10}, time.Time{}, false)
	for range 11 {
		d.Went(noon)
	}
	assert.False(t, d.Allows(noon, 100))
	confirmed := d.Confirmed()
	for range 11 {
		d.Went(noon.Add(time.Second)) // while that is stored
	}
	d.Release()
	assert.True(t, d.Allows(confirmed, 100))
	assert.False(t, d.Allows(noon.Add(time.Second), 100))
}

// A partition of a topic is read later than another one, and a bridge publishes late what its broker did not take.
func TestDeletes_count_what_is_found_late(t *testing.T) {
	for name, next := range map[string]func(d *Deletes) (now *Deletes, stored func()){
		"while it is stored": func(d *Deletes) (*Deletes, func()) { d.Confirmed(); return d, d.Release },
		"behind a release":   func(d *Deletes) (*Deletes, func()) { d.Confirmed(); d.Release(); return d, func() {} },
		"by the next process": func(d *Deletes) (*Deletes, func()) {
			next := NewDeletes(Limit{Count: 10}, d.Confirmed(), false)
			assert.Equal(t, noon, next.Time(noon), "what the log had was confirmed")
			next.CatchUp()
			return next, func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := NewDeletes(Limit{Count: 10}, time.Time{}, false)
			early := noon.Add(-time.Minute)
			assert.Equal(t, early, d.Time(early))
			d.CatchUp()
			assert.Equal(t, early, d.Time(early), "nothing was confirmed")
			assert.Equal(t, noon, d.Pruned(11, noon))
			assert.False(t, d.Allows(noon, 100))
			d, stored := next(d)
			late := d.Time(early)
			for range 11 {
				d.Went(late)
			}
			stored()
			assert.True(t, d.Allows(noon, 100))
			assert.False(t, d.Allows(late, 100), "no person was told of them")
			assert.Equal(t, late, d.Pruned(1, noon))
		})
	}
}

// A process that was told that deletes are held holds also those of before.
func TestDeletes_that_are_held_at_the_start_are_held_all(t *testing.T) {
	d := NewDeletes(Limit{Count: 10}, noon, true)
	assert.False(t, d.Allows(noon, 100))
	d.Confirmed()
	d.Release()
	assert.True(t, d.Allows(noon, 100))
}

func TestDeletes_count_an_hour_of_the_log(t *testing.T) {
	d := NewDeletes(Limit{Count: 10}, time.Time{}, false)
	for range 10 {
		d.Went(noon)
	}
	d.Went(noon.Add(2 * time.Hour))
	assert.True(t, d.Allows(noon.Add(2*time.Hour), 100))
}

func TestDeletes_do_not_count_what_came_back(t *testing.T) {
	d := NewDeletes(Limit{Count: 10}, time.Time{}, false)
	for i := range 100 {
		d.Went(noon.Add(time.Duration(i) * time.Second))
		d.CameBack(noon.Add(time.Duration(i) * time.Second))
	}
	assert.True(t, d.Allows(noon.Add(time.Minute), 100))
}

// A restart reads the same newest events, in another order.
func TestDeletes_are_counted_in_any_order(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		minutes := rapid.SliceOfN(rapid.IntRange(0, 200), 0, 60).Draw(t, "minutes")
		a, b := NewDeletes(Limit{Count: 10}, time.Time{}, false), NewDeletes(Limit{Count: 10}, time.Time{}, false)
		for i := range minutes {
			a.Went(noon.Add(time.Duration(minutes[i]) * time.Minute))
			b.Went(noon.Add(time.Duration(minutes[len(minutes)-1-i]) * time.Minute))
		}
		at := noon.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "at")) * time.Minute)
		if x, y := a.Allows(at, 50), b.Allows(at, 50); x != y {
			t.Fatalf("one allows: %v, the other: %v", x, y)
		}
	})
}
