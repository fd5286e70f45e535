// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"sync"
	"time"
)

// Clock tells what records are stamped with. Brokers mind it: they refuse what is stamped more than an hour after their
// own time (message.timestamp.after.max.ms), and they forget a producer whose last record is stamped a day before it
// (producer.id.expiration.ms), and with it what they need to recognise a repetition and to refuse an older process.
// They do not tell their time. So this clock never goes back when the machine's does, and where a broker has refused
// its time it is set back step by step. A machine whose clock is a day behind from the beginning it does not notice.
//
// The zero Clock is ready for use, by several goroutines.
type Clock struct {
	// read is for tests: the machine's time, and how long it has run, which is not set.
	read func() (machine time.Time, running time.Duration)

	mu    sync.Mutex
	begun time.Time
	// at was told when the machine had run for so long; ahead is by how much the machine's clock is known to be wrong
	// at least.
	at      time.Time
	running time.Duration
	ahead   time.Duration
	// before is what ahead was when a broker began to refuse.
	before time.Duration
}

// Now returns the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, _ := c.now()
	return now
}

// now also returns the machine's time. The caller holds mu.
func (c *Clock) now() (now, machine time.Time) {
	machine, running := c.machine()
	now = machine.Add(-c.ahead)
	if went := c.at.Add(running - c.running); !c.at.IsZero() && went.After(now) {
		now = went
	}
	c.at, c.running = now, running
	return now, machine
}

func (c *Clock) machine() (time.Time, time.Duration) {
	if c.read != nil {
		return c.read()
	}
	now := time.Now()
	if c.begun.IsZero() {
		c.begun = now
	}
	return now.Round(0), now.Sub(c.begun)
}

// How far the clock is set back: an hour, and twice as much the next time, but never by more than half of the day after
// which a producer is forgotten; two years in all.
const (
	firstStep   = time.Hour
	longestStep = 12 * time.Hour
	mostSteps   = 1500
	// staleAfter is how old a stamp is that may be refused for its age.
	staleAfter = 10 * time.Second
)

// Refused returns what records are to be stamped with of which a broker has refused the newest stamp, for the n-th time
// from 1. It sets the clock back, unless somebody has since they were stamped. It is false if the time cannot be what
// is wrong: then the clock is what it was before the first time. The first answer to what was stamped a while ago is
// the time as it is, because a topic may also refuse what is too old (message.timestamp.before.max.ms).
func (c *Clock) Refused(stamp time.Time, n int) (again time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, machine := c.now()
	if stamp.After(now) {
		return now, true
	}
	if n == 1 {
		c.before = c.ahead
	}
	switch {
	case n == 1 && now.Sub(stamp) > staleAfter:
		return now, true
	case n > mostSteps:
		c.ahead = c.before
		c.at = machine.Add(-c.ahead)
		return c.at, false
	}
	step := longestStep
	if n < 5 {
		step = firstStep << (n - 1)
	}
	c.at = now.Add(-step)
	c.ahead = machine.Sub(c.at)
	return c.at, true
}
