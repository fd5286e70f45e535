// SPDX-License-Identifier: Apache-2.0

// Package waiting knows which events of a log are not handled, which objects of a replica wait and for what, and which
// are changed back again and again.
package waiting

import (
	"slices"
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
)

// Outstanding counts the events that were read and are not handled yet, by parts of the log. It is safe for concurrent
// use.
type Outstanding struct {
	mu    sync.Mutex
	lanes map[uint16]*lane
	// parts are those of all lanes that have events which are not handled. Last is the number of the newest one, and open
	// is how many events are not handled.
	parts map[uint32]*part
	last  uint32
	open  int
}

// lane has its parts in the order of the log, and the position of the newest message that was read.
type lane struct {
	parts []uint32
	read  uint64
}

// part is a part of a lane. A part for each event would need memory for each event of a backlog.
type part struct {
	// before is the position of the last message before it.
	before uint64
	// at is when its oldest event was recorded, and begun when that was read.
	at, begun time.Time
	// events is how many it has, and open how many of them are not handled.
	events, open int
}

// A part ends after so many events, and after so long.
const (
	partEvents = 512
	partTime   = time.Second
)

// NewOutstanding returns one that knows no event.
func NewOutstanding() *Outstanding {
	return &Outstanding{lanes: make(map[uint16]*lane), parts: make(map[uint32]*part)}
}

// Add says that an event was read, and returns the number of its part of the log, which is not 0.
func (o *Outstanding) Add(e *event.Event, now time.Time) (number uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.lane(e.Lane)
	if n := len(l.parts); n > 0 {
		number = l.parts[n-1]
	}
	p := o.parts[number]
	if p == nil || p.open == 0 || p.events == partEvents || now.Sub(p.begun) > partTime {
		l.parts = slices.DeleteFunc(l.parts, o.handled)
		o.last++
		number, p = o.last, &part{before: l.read, at: e.Time(), begun: now}
		o.parts[number] = p
		l.parts = append(l.parts, number)
	}
	p.events++
	p.open++
	o.open++
	return number
}

// handled forgets a part all of whose events are handled.
func (o *Outstanding) handled(number uint32) bool {
	if o.parts[number].open > 0 {
		return false
	}
	delete(o.parts, number)
	return true
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

// Handled says that nothing more is to be done about an event of a part, or that its object is parked.
func (o *Outstanding) Handled(number uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.parts[number].open--
	o.open--
}

// Kept returns how many parts it keeps.
func (o *Outstanding) Kept() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.parts)
}

// State returns the marks up to which everything is handled, how many events are not, and about when the oldest of them
// was recorded.
func (o *Outstanding) State() (marks event.Marks, n int, oldest time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	marks = make(event.Marks, len(o.lanes))
	for number, l := range o.lanes {
		l.parts = slices.DeleteFunc(l.parts, o.handled)
		mark := l.read
		if len(l.parts) > 0 {
			first := o.parts[l.parts[0]]
			mark = first.before
			if oldest.IsZero() || first.at.Before(oldest) {
				oldest = first.at
			}
		}
		if mark != 0 {
			marks[number] = mark
		}
	}
	return marks, o.open, oldest
}
