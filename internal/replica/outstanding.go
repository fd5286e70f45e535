// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
)

// outstanding knows the events that were read and are not handled yet, by lane in the order of the log. A key is in it
// once, with its oldest event. It is safe for concurrent use.
type outstanding struct {
	mu    sync.Mutex
	lanes map[uint16]*lane
	// open has the keys that are in a queue and not handled.
	open map[keys.ID]struct{}
}

type lane struct {
	queue []waiting
	// read is the position of the newest message that was read.
	read uint64
}

type waiting struct {
	id keys.ID
	// before is the position of the message before the event.
	before uint64
	// at is when the event was recorded.
	at time.Time
}

func newOutstanding() *outstanding {
	return &outstanding{lanes: make(map[uint16]*lane), open: make(map[keys.ID]struct{})}
}

// add says that an event of a key was read.
func (o *outstanding) add(id keys.ID, e *event.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, again := o.open[id]; again {
		return
	}
	o.open[id] = struct{}{}
	l := o.lane(e.Lane)
	l.queue = append(l.queue, waiting{id, l.read, e.Time()})
}

// read says that everything in a message's lane was read up to it.
func (o *outstanding) read(m *event.Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lane(m.Lane).read = m.Position
}

func (o *outstanding) lane(number uint16) *lane {
	l := o.lanes[number]
	if l == nil {
		l = &lane{}
		o.lanes[number] = l
	}
	return l
}

// handled says that nothing more is to be done about what was read of a key so far, or that it is parked.
func (o *outstanding) handled(id keys.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.open, id)
	for _, l := range o.lanes {
		for len(l.queue) > 0 {
			if _, open := o.open[l.queue[0].id]; open {
				break
			}
			l.queue = l.queue[1:]
		}
	}
}

// state returns the marks up to which everything is handled, how many keys are not, and when the oldest of their events
// was recorded.
func (o *outstanding) state() (marks event.Marks, n int, oldest time.Time) {
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
