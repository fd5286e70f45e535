// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"maps"
	"sync"

	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// Offsets bound, by partition, what a ledger may not know of: whatever the log has at or before them has been
// acknowledged to this process, and stands in a ledger. Its methods may be called by several goroutines at a time.
//
// An event that is under way gets a place after everything that was acknowledged when it was handed to the sink. Events
// are counted in two windows of time, each of which remembers what was acknowledged when it began; the offset is that
// of the oldest window that still has an event under way.
type Offsets struct {
	mu      sync.Mutex
	high    map[int32]uint64
	ids     map[int32]string // of the messages at high
	windows [2]window
	current uint8
	// begun counts all events that were handed to the sink. Idle is where the log ended when none was under way.
	begun uint64
	idle  map[int32]uint64
}

type window struct {
	flying int
	from   map[int32]uint64
}

// NewOffsets returns offsets of a log that has nothing.
func NewOffsets() *Offsets { return &Offsets{high: map[int32]uint64{}, ids: map[int32]string{}} }

// Start sets where the log ends before anything is published, and the ids of the messages there, as far as they are
// known.
func (m *Offsets) Start(ends map[int32]uint64, ids map[int32]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.high, m.ids = maps.Clone(ends), maps.Clone(ids)
	m.windows[0].from, m.windows[1].from = maps.Clone(ends), maps.Clone(ends)
}

// Begin counts an event that is handed to the sink, and returns its window.
func (m *Offsets) Begin() (window uint8) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.windows[m.current].flying++
	m.begun++
	return m.current
}

// Quiet returns a number that is another one once an event is handed to the sink; false while one is under way.
func (m *Offsets) Quiet() (begun uint64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.begun, m.windows[0].flying+m.windows[1].flying == 0
}

// Settle takes note of where the log ended, unless an event was handed to the sink since Quiet returned begun: then all
// that the log has up to there is known, others' messages included.
func (m *Offsets) Settle(begun uint64, ends map[int32]uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.begun == begun {
		m.idle = ends
	}
}

// End counts one of the window that stands in its ledger; r is the broker's answer.
func (m *Offsets) End(window uint8, r sink.Receipt, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.windows[window].flying--
	if r.Sequence > m.high[r.Partition] {
		m.high[r.Partition], m.ids[r.Partition] = r.Sequence, id
	}
}

// Take returns the offsets; what ledgers are asked for afterwards has everything at or before them. It begins a new
// window if the one before the current is empty.
func (m *Offsets) Take() map[int32]uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	other := 1 - m.current
	if m.windows[other].flying == 0 {
		m.windows[other].from = maps.Clone(m.high)
		m.current, other = other, m.current
	}
	offsets := maps.Clone(m.windows[m.current].from)
	if m.windows[other].flying > 0 {
		offsets = maps.Clone(m.windows[other].from)
	}
	for partition, end := range m.idle {
		offsets[partition] = max(offsets[partition], end)
	}
	return offsets
}

// From returns what was acknowledged when a window began.
func (m *Offsets) From(window uint8) map[int32]uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.windows[window].from)
}

// Ends returns what was acknowledged last, and the ids of the messages there, where they are known.
func (m *Offsets) Ends() (map[int32]uint64, map[int32]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.high), maps.Clone(m.ids)
}
