// SPDX-License-Identifier: Apache-2.0

// Package guard stops what could wipe a target by mistake: deletes above a limit, and a source whose versions begin
// again.
package guard

import (
	"sync"
	"time"
)

// Limit is how many objects may go in an hour.
type Limit struct {
	// Percent is of the objects that the replica has; if it is 0, Count is a number of them.
	Percent, Count int
}

// least is the smallest limit that a percentage gives.
const least = 5

// Of returns the limit for a replica that has some objects.
func (l Limit) Of(objects int) int {
	if l.Percent == 0 {
		return l.Count
	}
	return max(objects*l.Percent/100, least)
}

// Window is the time in which deletes are counted.
const Window = time.Hour

// Deletes counts how many objects went, in the time of the log, and holds deletes above the limit. An object that came
// back does not count.
//
// What it counts follows from the newest events of the log alone, so that a restart counts the same. An exception is
// what a log or a list tells late, see [Deletes.Time]. It is safe for concurrent use.
type Deletes struct {
	mu       sync.Mutex
	limit    Limit
	released time.Time
	// gone is, by minute, how many objects went and did not come back.
	gone map[int64]int
	// newest is when the object ended that ended last.
	newest time.Time
	// confirmed is what Confirmed returned last, in this process or the one before. Since is gone of what ended after
	// that.
	confirmed time.Time
	since     map[int64]int
	// known is a time up to which ends were confirmed, or are being: no person was told of one that is found now.
	known time.Time
	held  bool
}

// NewDeletes returns a guard that has counted nothing. Ends up to released were confirmed. Held: it refuses until
// Release.
func NewDeletes(limit Limit, released time.Time, held bool) *Deletes {
	return &Deletes{limit: limit, released: released, confirmed: released, held: held, gone: make(map[int64]int)}
}

// CatchUp says that the log was read up to its end. What is found from now on was not found when ends were confirmed.
func (d *Deletes) CatchUp() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.setKnown(d.released)
}

func (d *Deletes) setKnown(at time.Time) {
	if at.After(d.known) {
		d.known = at
	}
}

// Time returns when an object ended, for the guard, of which it is found now that it ended at a time. One of which no
// person was told ended right behind those that a person has confirmed: parts of a log are not read in the order of
// time, and a list may come long after the resync that it is compared with.
func (d *Deletes) Time(at time.Time) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.time(at)
}

func (d *Deletes) time(at time.Time) time.Time {
	if at.After(d.known) || d.known.IsZero() {
		return at
	}
	return d.known.Add(time.Millisecond)
}

// Late returns what Time does, and whether ends up to that time were confirmed.
func (d *Deletes) Late(at time.Time) (time.Time, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.time(at), !at.After(d.confirmed)
}

// Pruned counts n objects of which it is found now that they ended at a time. It returns what Time does.
func (d *Deletes) Pruned(n int, at time.Time) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	at = d.time(at)
	d.count(at, n)
	return at
}

// Went counts an object that ended at a time, as Time has returned it.
func (d *Deletes) Went(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count(at, 1)
}

// CameBack takes back that an object ended at a time: there is one of its name again.
func (d *Deletes) CameBack(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count(at, -1)
}

func (d *Deletes) count(at time.Time, n int) {
	if n > 0 && at.After(d.newest) {
		d.newest = at
	}
	if at.After(d.released) {
		add(d.gone, at, n)
	}
	if d.since != nil && at.After(d.confirmed) {
		add(d.since, at, n)
	}
}

func add(counts map[int64]int, at time.Time, n int) {
	minute := at.Unix() / 60
	if counts[minute] += n; counts[minute] <= 0 {
		delete(counts, minute)
	}
}

// Allows reports whether an object that ended at a time may be deleted, in a replica that has some objects without
// those that ended. Once it has refused, it refuses until Release.
func (d *Deletes) Allows(at time.Time, objects int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.held:
		return false
	case !at.After(d.released):
		return true
	}
	gone := 0
	for minute := at.Add(-Window).Unix() / 60; minute <= at.Unix()/60; minute++ {
		gone += d.gone[minute]
	}
	d.held = gone > d.limit.Of(objects+gone)
	return !d.held
}

// Held reports whether deletes are refused.
func (d *Deletes) Held() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.held
}

// Confirmed returns the time, in that of the log, up to which a person who lets the replica go on confirms what ended:
// all that is known if deletes are refused, else what was confirmed before.
func (d *Deletes) Confirmed() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.confirmed = d.released
	if d.held && d.newest.After(d.released) {
		d.confirmed, d.since = d.newest, make(map[int64]int)
	}
	d.setKnown(d.confirmed)
	return d.confirmed
}

// Release allows the deletion of what ended up to the time that Confirmed returned last, and counts what ended behind
// it.
func (d *Deletes) Release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.since != nil {
		d.gone, d.since = d.since, nil
	}
	d.released, d.held = d.confirmed, false
}
