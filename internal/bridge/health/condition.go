// SPDX-License-Identifier: Apache-2.0

package health

import (
	"sync"
	"time"
)

// UnreadyAfter is how long a watch, a broker or a checkpoint may fail before its pipeline is not ready.
const UnreadyAfter = 30 * time.Second

// Condition is why something does not work, and since when. The zero Condition says that it works. Its methods may be
// called by several goroutines at a time.
type Condition struct {
	mu  sync.Mutex
	err error
	// since is when err began, said when there was news last, and told what.
	since, said time.Time
	told        string
}

// News is what is worth a line in the log.
type News int

// The News.
const (
	Nothing News = iota
	// Begins: it worked before.
	Begins
	// Lasts: it does not work still.
	Lasts
	// Ends: it works again.
	Ends
)

// Intervals are how long after the last news it is news that something lasts: Same for the same reason, Other for
// another one.
type Intervals struct{ Same, Other time.Duration }

// Observe takes note of how something went, and returns what is news of that, and since when it did not work. A nil
// error says that it works.
func (c *Condition) Observe(err error, i Intervals) (n News, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, before := time.Now(), c.err
	c.err = err
	switch {
	case err == nil && before == nil:
		return Nothing, time.Time{}
	case err == nil:
		return Ends, c.since
	case before == nil:
		n, c.since = Begins, now
	case now.Sub(c.said) >= i.Same || now.Sub(c.said) >= i.Other && err.Error() != c.told:
		n = Lasts
	default:
		return Nothing, c.since
	}
	c.said, c.told = now, err.Error()
	return n, c.since
}

// Problem returns since when it does not work, and why; a nil error if it works.
func (c *Condition) Problem() (since time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		return time.Time{}, nil
	}
	return c.since, c.err
}
