// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// unusedAfter is how long after a hand-over what no reader has asked for is kept.
const unusedAfter = 5 * time.Minute

// Holds records what streams show behind the positions of another process, which publishes them, for the day when readers of this process take over: a [Reader] that
// begins at a position reads first what was recorded behind it, whatever the API server still has of that. It is safe for concurrent use.
//
// What was recorded of a stream has no holes. Where the API server can show no more, as after it was restarted, nothing is recorded until the position has come as far.
type Holds struct {
	client  *Client
	watches *Watches
	// wake has room for one word that Run has something to do.
	wake chan struct{}

	mu sync.Mutex
	// limit bounds what is recorded, in bytes.
	limit int64
	want  map[Stream]heldFrom
	holds map[Stream]*hold
	bytes int64
	// moved is closed, and another one made, when there is more room, or a position has moved, and somebody is waiting for that.
	moved   chan struct{}
	waiting int
	// over is when the readers took over; zero before.
	over time.Time
}

// From is where the recording of a stream begins.
type From struct {
	// Version is the position that is committed, and History the number of the API server's history which it is of.
	Version string
	History int
}

type heldFrom struct {
	version uint64
	history int
}

// NewHolds returns a Holds that records at most limit bytes, or one object if that is larger. When there is no room, reading waits. Watches may be nil.
func NewHolds(c *Client, watches *Watches, limit int64) *Holds {
	return &Holds{
		client: c, watches: watches, limit: limit, wake: make(chan struct{}, 1), want: map[Stream]heldFrom{}, holds: map[Stream]*hold{}, moved: make(chan struct{}),
	}
}

// SetLimit bounds what is recorded from now on. What is recorded stays; where that is more, reading waits.
func (h *Holds) SetLimit(limit int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.limit = limit
	h.stir()
}

// Limit returns how many bytes may be recorded.
func (h *Holds) Limit() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.limit
}

// Bytes returns how much is recorded.
func (h *Holds) Bytes() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bytes
}

// Keep says from which positions on streams are to be recorded; others are not any more. Positions that are not numbers are ignored.
func (h *Holds) Keep(positions map[Stream]From) {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.want)
	for stream, position := range positions {
		if version, ok := number(position.Version); ok {
			h.want[stream] = heldFrom{version, position.History}
			if k := h.holds[stream]; k != nil && k.history == position.History {
				h.advance(k, version)
			}
		}
	}
	h.stir()
	h.poke()
}

// HandOver says that readers take over now: no positions are told any more, and what no reader has asked for in some minutes is dropped. It may be called again.
func (h *Holds) HandOver() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = time.Now()
	h.poke()
}

// Run records until ctx ends, or everything was taken over. Then nothing is kept.
func (h *Holds) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	defer h.drop(func(*hold) bool { return true })
	tick := time.NewTicker(unusedAfter / 10)
	defer tick.Stop()
	for {
		h.drop(func(k *hold) bool {
			from, wanted := h.want[k.stream]
			return k.used || !wanted || !k.taken && k.history != from.history || !k.taken && !h.over.IsZero() && time.Since(h.over) > unusedAfter
		})
		if h.begin(ctx, &running) == 0 && h.handedOver() {
			return nil
		}
		select {
		case <-h.wake:
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (h *Holds) handedOver() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.over.IsZero()
}

// begin records what is not recorded yet, and returns how many streams are.
func (h *Holds) begin(ctx context.Context, running *sync.WaitGroup) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	for stream, from := range h.want {
		if h.holds[stream] != nil || !h.over.IsZero() {
			continue
		}
		k := &hold{
			holds: h, stream: stream, history: from.history, after: from.version, safe: from.version, last: from.version, wake: make(chan struct{}, 1),
		}
		recording, cancel := context.WithCancel(ctx)
		k.cancel = cancel
		h.holds[stream] = k
		running.Go(func() { k.run(recording) })
	}
	return len(h.holds)
}

// drop ends what is not to be recorded any more.
func (h *Holds) drop(which func(*hold) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range slices.Collect(maps.Values(h.holds)) {
		if which(k) {
			k.dropped = true
			k.cancel()
			h.cut(k, len(k.events))
			delete(h.holds, k.stream)
		}
	}
}

// advance forgets what a position has passed; the caller holds mu.
func (h *Holds) advance(k *hold, position uint64) {
	if k.taken || position <= k.after {
		return
	}
	n := slices.IndexFunc(k.events, func(e event) bool { return e.version > position })
	if n < 0 {
		n = len(k.events)
	}
	h.cut(k, n)
	k.after = position
}

// cut forgets the oldest n events; the caller holds mu.
func (h *Holds) cut(k *hold, n int) {
	if n == 0 {
		return
	}
	for i := range k.events[:n] {
		h.bytes -= k.events[i].size()
		k.events[i].body.Release()
	}
	clear(k.events[:n])
	if k.events = k.events[n:]; len(k.events) == 0 {
		k.events = nil
	}
	h.stir()
}

// stir tells who waits for room or positions; the caller holds mu.
func (h *Holds) stir() {
	if h.waiting > 0 {
		close(h.moved)
		h.moved, h.waiting = make(chan struct{}), 0
	}
}

// await waits until there is more room, or a position has moved. The error is ctx's; the caller holds mu, which is free meanwhile.
func (h *Holds) await(ctx context.Context) error {
	h.waiting++
	moved := h.moved
	h.mu.Unlock()
	defer h.mu.Lock()
	select {
	case <-moved:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *Holds) poke() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// take returns what was recorded of a stream behind a version of a history, for the one reader of it; nil where there is nothing, or not all of it.
func (h *Holds) take(s Stream, version string, history int) connection {
	after, ok := number(version)
	if h == nil || !ok {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.holds[s]
	if k == nil || k.taken || after < k.after || after > k.last || k.dropped || k.history != history {
		return nil
	}
	h.advance(k, after)
	k.taken = true
	return &heldConnection{hold: k, opened: time.Now()}
}
