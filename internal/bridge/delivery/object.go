// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// Object is a key with changes pending, or a marker. The queue holds objects; at most one worker, and after it one
// acknowledgement, has an object at a time.
type Object struct {
	Stream Stream
	Key    string

	// Pending is oldest first, and Known what the newest of all changes handed over says. Both are guarded by the
	// stream's lock.
	Pending []Delta
	Known   checkpoint.Row

	// Attempt belongs to whoever has the object, as what follows.
	Attempt Attempt
	done    sink.Done
	// delayed: a timer may still put the object into the queue, so it must not become another one.
	delayed bool
}

// Push appends a change; the caller holds the stream's lock. In latest mode it folds what has not been taken yet. The
// ticket of the oldest stays open, so that all are counted again if the process dies before the event is in the log.
func (o *Object) Push(d Delta, fold bool) (folded *Delta) {
	if n := len(o.Pending); fold && n > 0 {
		if last := &o.Pending[n-1]; foldable(last, &d) {
			old := *last
			d.Count, d.Counted = last.Changes()+d.Changes(), last.Counted+d.Counted
			d.Ticket, old.Ticket = old.Ticket, d.Ticket
			*last = d
			return &old
		}
	}
	o.Pending = append(o.Pending, d)
	return nil
}

// Take makes the oldest pending change the attempt, unless one is under way; the caller holds the stream's lock.
func (o *Object) Take() (taken bool) {
	if o.Attempt.Active || len(o.Pending) == 0 {
		return false
	}
	o.Attempt = Attempt{Active: true, Delta: o.Pending[0]}
	n := copy(o.Pending, o.Pending[1:])
	o.Pending[n] = Delta{}
	o.Pending = o.Pending[:n]
	return true
}
