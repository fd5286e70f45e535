// SPDX-License-Identifier: Apache-2.0

// Package resyncs follows the complete resyncs of a log: what they cover, which events they tell, and when they end.
package resyncs

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
)

// Scope is what a stream of the source covers: all of it, if its members are empty.
type Scope struct {
	Resource                                uint16
	Namespace, LabelSelector, FieldSelector string
}

// Resync is one that the log has.
type Resync struct {
	number int64
	// Told is the mark of what was told since it began. A later resync has a greater one.
	Told uint32
	// began has, by lane, the position of the marker that begins it, and ended the lanes that it has ended in.
	began map[uint16]uint64
	ended map[uint16]bool
	// Gone is what is claimed of objects that it did not tell.
	Gone keys.Desired
}

// tells reports whether an event is behind the resync's beginning.
func (s *Resync) tells(e *event.Event) bool {
	began, ok := s.began[e.Lane]
	return ok && e.Position > began
}

// Resyncs follows the complete resyncs of the log. It is used by who reads the log.
type Resyncs struct {
	// next is the mark of the newest resync; 0 is none.
	next uint32
	// current has, by scope, the newest resync that has begun, and done the newest one that is complete and not pruned.
	current, done map[Scope]*Resync
}

// New returns one that knows none.
func New() *Resyncs {
	return &Resyncs{current: make(map[Scope]*Resync), done: make(map[Scope]*Resync)}
}

// Told returns the mark of the newest resync that an event of an object is told by; 0 where none has begun before it.
// What comes behind the end of a resync counts as told too.
func (s *Resyncs) Told(resource uint16, e *event.Event) (mark uint32) {
	for _, known := range []map[Scope]*Resync{s.current, s.done} {
		for sc, state := range known {
			within := sc.Resource == resource && (sc.Namespace == "" || sc.Namespace == e.Attr("namespace"))
			if within && state.tells(e) {
				mark = max(mark, state.Told)
			}
		}
	}
	return mark
}

// Learn takes over a marker.
func (s *Resyncs) Learn(resource uint16, e *event.Event) {
	var data struct {
		Namespace, LabelSelector, FieldSelector string
		N                                       json.Number
		Complete                                bool
	}
	if json.Unmarshal(e.Data, &data) != nil {
		return
	}
	number, err := strconv.ParseInt(data.N.String(), 10, 64)
	if err != nil {
		return
	}
	sc := Scope{resource, data.Namespace, data.LabelSelector, data.FieldSelector}
	state := s.current[sc]
	if e.Op == event.ResyncStarted {
		if state == nil || state.number != number {
			s.next++
			state = &Resync{number: number, Told: s.next, began: make(map[uint16]uint64), ended: make(map[uint16]bool)}
			s.current[sc] = state
		}
		state.began[e.Lane] = e.Position
		return
	}
	if state == nil || state.number != number || !data.Complete || state.began[e.Lane] == 0 {
		return
	}
	state.ended[e.Lane] = true
	if len(state.ended) < int(e.Lanes) {
		return
	}
	state.Gone = keys.Desired{Claim: keys.Gone, Position: e.Position, At: e.Time().Truncate(time.Millisecond)}
	s.done[sc] = state
}

// Done returns the resyncs that are complete and were not returned before.
func (s *Resyncs) Done() map[Scope]*Resync {
	done := s.done
	s.done = make(map[Scope]*Resync)
	return done
}
