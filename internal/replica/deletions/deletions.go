// SPDX-License-Identifier: Apache-2.0

// Package deletions decides which objects of a replica may be deleted now.
package deletions

import (
	"iter"
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/guard"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/plan"
)

// Deletions counts the objects that are to be deleted, and asks the guard. It is safe for concurrent use.
type Deletions struct {
	table  *keys.Table
	guard  *guard.Deletes
	config plan.Config
	// counted ends once those are counted that were to be made at the start.
	counted sync.Once
}

// New returns the deletions of what a table has.
func New(table *keys.Table, g *guard.Deletes, config plan.Config) *Deletions {
	return &Deletions{table: table, guard: g, config: config}
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

func (d *Deletions) countAll() {
	for row := range d.ending() {
		if row.Desired.LeftOut {
			d.CountEnd(row, row.Desired.At)
		}
	}
	for row := range d.ending() {
		d.guard.Allows(row.Desired.At, d.staying())
	}
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
