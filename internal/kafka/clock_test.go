// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// machine is one whose clock somebody sets.
type machine struct {
	clock time.Time
	ran   time.Duration
}

func (m *machine) read() (time.Time, time.Duration) { return m.clock, m.ran }

// pass lets time pass.
func (m *machine) pass(d time.Duration) {
	m.clock = m.clock.Add(d)
	m.ran += d
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newMachine() (*machine, *Clock) {
	m := &machine{clock: noon}
	return m, &Clock{read: m.read}
}

// A broker forgets a producer whose records are stamped a day back.
func TestClock_goes_on_when_the_machine_goes_back(t *testing.T) {
	m, c := newMachine()
	wantTime(t, c, noon)
	m.clock = noon.Add(-48 * time.Hour)
	m.pass(time.Minute)
	wantTime(t, c, noon.Add(time.Minute))
	m.clock = noon.Add(time.Hour) // it was asleep
	wantTime(t, c, noon.Add(time.Hour))
}

func wantTime(t *testing.T, c *Clock, want time.Time) {
	t.Helper()
	got := c.Now()
	assert.True(t, got.Equal(want), "it is %v, want %v", got, want)
}

func TestClock_comes_near_the_time_of_a_broker_that_does_not_tell_it(t *testing.T) {
	for _, ahead := range []time.Duration{
		2 * time.Hour, 25 * time.Hour, 100 * time.Hour, 29 * 24 * time.Hour,
		40 * 24 * time.Hour, 400 * 24 * time.Hour,
	} {
		m, c := newMachine()
		m.clock = noon.Add(ahead)
		takes := func(stamp time.Time) bool { return !stamp.After(noon.Add(m.ran + time.Hour)) }
		stamp, ok := c.Now(), true
		for n := 1; !takes(stamp) && ok; n++ {
			stamp, ok = c.Refused(stamp, n)
		}
		if early := noon.Sub(stamp); !ok || early > 12*time.Hour {
			t.Errorf("with a clock %v ahead it is stamped %v early, %v", ahead, early, ok)
		}
		m.pass(time.Minute)
		next := c.Now()
		assert.True(t, takes(next) && next.After(stamp), "then %v, after %v", next, stamp)
		m.clock = noon.Add(m.ran) // somebody sets it right
		next = c.Now()
		assert.True(t, takes(next) && !next.Before(stamp), "when the machine is right it is %v, after %v", next, stamp)
	}
}

// Several partitions are refused at a time.
func TestClock_is_set_back_once_for_all_that_were_stamped_before(t *testing.T) {
	_, c := newMachine()
	stamp := c.Now()
	first, _ := c.Refused(stamp, 1)
	if second, ok := c.Refused(stamp, 1); !ok || !second.Equal(first) || !first.Equal(noon.Add(-time.Hour)) {
		t.Errorf("stamped at %v and %v", first, second)
	}
}

func TestClock_gives_up_where_the_time_is_not_what_is_wrong(t *testing.T) {
	_, c := newMachine()
	n := 1
	for stamp, ok := c.Now(), true; ok; n++ {
		stamp, ok = c.Refused(stamp, n)
		require.LessOrEqual(t, n, 10_000, "never")
	}
	assert.GreaterOrEqual(t, n, 730, "after %d steps", n)
	wantTime(t, c, noon) // what comes next is stamped as before
}

// A topic may refuse what has waited too long.
func TestClock_stamps_what_has_waited_with_the_time_first(t *testing.T) {
	m, c := newMachine()
	stamp := c.Now()
	m.pass(15 * time.Minute)
	now := noon.Add(15 * time.Minute)
	again, ok := c.Refused(stamp, 1)
	assert.True(t, ok && again.Equal(now), "stamped at %v, want %v", again, now)
	wantTime(t, c, now)
	again, ok = c.Refused(now, 2)
	assert.True(t, ok && again.Before(now), "then at %v", again)
}
