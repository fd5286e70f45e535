// SPDX-License-Identifier: Apache-2.0

package delivery

import "sync"

// Lanes have the markers of a subject published one after the other. Each expects the one before it to be the last
// message there, so that the broker refuses what a dead process has sent if it arrives late. Streams of single
// namespaces announce themselves at the same subject. Its methods may be called by several goroutines at a time.
type Lanes[T comparable] struct {
	mu sync.Mutex
	of map[string]*lane[T]
}

// lane is one subject: the place of its last message, as far as that is known, the marker that has the turn, and those
// that wait for it.
type lane[T comparable] struct {
	last  uint64
	taken bool
	turn  T
	waits []T
}

// NewLanes returns lanes of which nothing is known.
func NewLanes[T comparable]() *Lanes[T] { return &Lanes[T]{of: map[string]*lane[T]{}} }

// Enter gives a marker the turn of its subject, and says what it follows. If another one has the turn, the marker waits
// until Leave returns it.
func (l *Lanes[T]) Enter(subject string, marker T) (last uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.of[subject]
	if at == nil {
		at = &lane[T]{}
		l.of[subject] = at
	}
	if at.taken && at.turn != marker {
		at.waits = append(at.waits, marker)
		return 0, false
	}
	at.taken, at.turn = true, marker
	return at.last, true
}

// Leave ends the turn of a marker that is at a place, and returns the one that comes next, if one waits.
func (l *Lanes[T]) Leave(subject string, place uint64) (next T, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.of[subject]
	at.taken, at.last = false, max(at.last, place)
	if len(at.waits) == 0 {
		return next, false
	}
	next, at.waits = at.waits[0], at.waits[1:]
	at.taken, at.turn = true, next
	return next, true
}
