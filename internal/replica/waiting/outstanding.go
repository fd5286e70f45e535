// SPDX-License-Identifier: Apache-2.0

// Package waiting knows which events of a log are not handled, which objects of a replica wait and for what, and which
// are changed back again and again.
package waiting

import (
	"slices"
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
)

// Outstanding knows the events that were read and are not handled yet, by lane in the order of the log. A key is in it
// once, with its oldest event. It is safe for concurrent use.
type Outstanding struct {
	mu    sync.Mutex
	lanes map[uint16]*lane
	// open has the keys that are in a queue and not handled. It once had as many as most.
	open map[keys.ID]events
	most int
}

// events are those of a key that are not handled: the positions of the oldest and the newest one.
type events struct{ oldest, newest uint64 }

type lane struct {
	queue []waiting
	// read is the position of the newest message that was read.
	read uint64
}

type waiting struct {
	id keys.ID
	// position is that of the event.
	position uint64
	// before is the position of the message before the event.
	before uint64
	// at is when the event was recorded.
	at time.Time
}

// NewOutstanding returns one that knows no event.
func NewOutstanding() *Outstanding {
	return &Outstanding{lanes: make(map[uint16]*lane), open: make(map[keys.ID]events)}
}

// Add says that an event of a key was read.
func (o *Outstanding) Add(id keys.ID, e *event.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if before, again := o.open[id]; again {
		o.open[id] = events{before.oldest, e.Position}
		return
	}
	o.open[id] = events{e.Position, e.Position}
	o.most = max(o.most, len(o.open))
	l := o.lane(e.Lane)
	l.queue = append(l.queue, waiting{id, e.Position, l.read, e.Time()})
	if len(l.queue) > 2*len(o.open)+MostHandled {
		l.queue = slices.DeleteFunc(l.queue, o.handledBefore)
	}
}

// MostHandled is how many events may be kept that are handled, behind one that is not.
const MostHandled = 64

// handledBefore reports whether the event of a queue is handled.
func (o *Outstanding) handledBefore(w waiting) bool { return o.open[w.id].oldest != w.position }

// Newest returns the newest event of a key that is not handled; 0 where all are.
func (o *Outstanding) Newest(id keys.ID) uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.open[id].newest
}

// Read says that everything in a message's lane was read up to it.
func (o *Outstanding) Read(m *event.Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lane(m.Lane).read = m.Position
}

func (o *Outstanding) lane(number uint16) *lane {
	l := o.lanes[number]
	if l == nil {
		l = &lane{}
		o.lanes[number] = l
	}
	return l
}

// Handled says that nothing more is to be done about what was read of a key up to the event that was the newest, or
// that it is parked.
func (o *Outstanding) Handled(id keys.ID, newest uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open[id].newest != newest {
		return
	}
	delete(o.open, id)
	for _, l := range o.lanes {
		for len(l.queue) > 0 && o.handledBefore(l.queue[0]) {
			l.queue = l.queue[1:]
		}
		if len(l.queue) == 0 {
			l.queue = nil
		}
	}
	if len(o.open) == 0 && o.most > mostKept {
		o.open, o.most = make(map[keys.ID]events), 0 // a map does not give back what it had room for
	}
}

// mostKept is how many keys there is always room for.
const mostKept = 1024

// Kept returns how many events it keeps.
func (o *Outstanding) Kept() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range o.lanes {
		n += len(l.queue)
	}
	return n
}

// State returns the marks up to which everything is handled, how many keys are not, and when the oldest of their events
// was recorded.
func (o *Outstanding) State() (marks event.Marks, n int, oldest time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	marks = make(event.Marks, len(o.lanes))
	for number, l := range o.lanes {
		mark := l.read
		if len(l.queue) > 0 {
			mark = l.queue[0].before
			if at := l.queue[0].at; oldest.IsZero() || at.Before(oldest) {
				oldest = at
			}
		}
		if mark != 0 {
			marks[number] = mark
		}
	}
	return marks, len(o.open), oldest
}
