// SPDX-License-Identifier: Apache-2.0

// Package deletions decides which objects of a replica may be deleted now.
package deletions

import (
	"iter"
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/guard"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/listing"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/plan"
)

// Deletions counts the objects that are to be deleted, and asks the guard. It is safe for concurrent use.
type Deletions struct {
	table   *keys.Table
	listing *listing.Streams
	guard   *guard.Deletes
	config  plan.Config
	// stored returns what a person has released.
	stored func() guard.Stops
	// counted ends once those are counted that were to be made at the start.
	counted sync.Once
}

// New returns the deletions of what a table has. Stored returns what a person has released.
func New(
	table *keys.Table, streams *listing.Streams, g *guard.Deletes, config plan.Config, stored func() guard.Stops,
) *Deletions {
	return &Deletions{table: table, listing: streams, guard: g, config: config, stored: stored}
}

// Allowed reports whether the guard lets an object be deleted. Before the first one, all are counted that are to be
// deleted then: a process that was stopped by the guard is stopped again. All of the target has to be listed.
func (d *Deletions) Allowed(row *keys.Row) bool {
	d.counted.Do(d.countAll)
	if row.Desired.LeftOut {
		d.CountEnd(row, d.guard.Time(row.Desired.At))
	}
	return d.guard.Allows(row.Desired.At, d.staying())
}

// countAll counts what is to be deleted. If there is more of what was released than was left of it, no person was told
// of all, and all of it counts. What cannot be listed now counts once it is.
func (d *Deletions) countAll() {
	d.listing.Ask()
	stored, left := d.stored(), 0
	released := func(row *keys.Row) bool { return !row.Desired.At.After(stored.Deletes) }
	for row := range d.ending() {
		if !row.Desired.Young && released(row) {
			left++
		}
	}
	again := left > stored.Left
	for row := range d.ending() {
		switch at := row.Desired.At; {
		case !row.Desired.LeftOut:
		case again && released(row):
			d.CountEnd(row, d.guard.Time(at))
		default:
			d.CountEnd(row, at)
		}
	}
	if again {
		d.CountLate(released)
	}
	for row := range d.ending() {
		d.guard.Allows(row.Desired.At, d.staying())
	}
}

// Left returns how many of the objects that ended up to a time are still to be deleted, of those that count.
func (d *Deletions) Left(until time.Time) (n int) {
	for row := range d.ending() {
		if row.Desired.Weighs() && !row.Desired.At.After(until) {
			n++
		}
	}
	return n
}

// CountEnd counts the deletion of an object of ours, which the log alone does not make count, at a time, once.
func (d *Deletions) CountEnd(row *keys.Row, at time.Time) {
	if d.table.CountEnd(row.Key, at) {
		row.Desired.At = at
		d.guard.Went(at)
	}
}

// CountLate counts the deletions, of those selected, of what ended before ends were confirmed: no person was told of
// them.
func (d *Deletions) CountLate(selected func(*keys.Row) bool) {
	for row := range d.ending() {
		if late, isLate := d.guard.Late(row.Desired.At); isLate && row.Desired.Weighs() && selected(row) {
			d.CountEnd(row, late)
		}
	}
}

// staying is how many objects of the replica the target will have once those are deleted that shall go.
func (d *Deletions) staying() int {
	_, ours := d.table.Count(func(c keys.Claim) bool { return !d.config.Ends(c) })
	return ours
}

// ending returns the objects that are to be deleted.
func (d *Deletions) ending() iter.Seq[*keys.Row] {
	return func(yield func(*keys.Row) bool) {
		for _, row := range d.table.All() {
			if plan.Decide(row.Desired, row.Actual, false, d.config).Do == plan.Delete && !yield(&row) {
				return
			}
		}
	}
}
