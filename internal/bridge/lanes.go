// SPDX-License-Identifier: Apache-2.0

package bridge

import "sync"

// lanes have the markers of a subject published one after the other. Each expects the one before it to be the last
// message there, so that the broker refuses what a dead process has sent if it arrives late. Streams of single namespaces
// announce themselves at the same subject.
type lanes struct {
	mu sync.Mutex
	of map[string]*lane
}

// lane is one subject: the place of its last message, as far as that is known, the marker that has the turn, and those
// that wait for it.
type lane struct {
	last  uint64
	turn  *object
	waits []*object
}

func newLanes() *lanes { return &lanes{of: map[string]*lane{}} }

// enter gives a marker the turn of its subject, and says what it follows. If another one has the turn, o waits until
// leave returns it.
func (l *lanes) enter(subject string, o *object) (last uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.of[subject]
	if at == nil {
		at = &lane{}
		l.of[subject] = at
	}
	if at.turn != nil && at.turn != o {
		at.waits = append(at.waits, o)
		return 0, false
	}
	at.turn = o
	return at.last, true
}

// leave ends the turn of a marker that is at a place, and returns the one that comes next; nil if none waits.
func (l *lanes) leave(subject string, place uint64) (next *object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.of[subject]
	at.turn, at.last = nil, max(at.last, place)
	if len(at.waits) == 0 {
		return nil
	}
	next, at.waits = at.waits[0], at.waits[1:]
	at.turn = next
	return next
}
