// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"math/bits"
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
)

// Queue has the keys that are to be looked at, now or later. A key is in it once, and no two workers have the same one.
// It is safe for concurrent use.
//
// It takes two bits for each key, in the order of rows, and 30 bytes for one that is looked at later. All keys may be
// in it while the target is away. Its methods are as those of client-go's workqueue, which takes 150 bytes.
type Queue struct {
	mu   sync.Mutex
	more *sync.Cond
	down bool
	// due has keys that are to be looked at, and busy those that workers have. Ready is how many are due and not busy.
	due, busy bitmap
	ready     int
	// next is where Get goes on: all others have their turn before a key has another one.
	next int

	begun time.Time
	// waits has, for each of the times that keys wait, which do so, in the order of their ends.
	waits map[time.Duration][]wait
	// failed has the keys that are looked at later, until Forget.
	failed map[keys.ID]failure
	// awaited: a timer looks at waits again.
	awaited bool
}

// wait is one of a key that ends at a time.
type wait struct {
	id  keys.ID
	end uint32 // in ticks
}

// failure is how often a key had to wait, and when it is looked at; 0 is when something changes.
type failure struct {
	end    uint32
	delays [2]uint8
}

// tick is how exact delays are.
const tick = 50 * time.Millisecond

// Delay is how long a key waits: twice as long each time.
type Delay uint8

// The delays.
const (
	// Retry is of what failed.
	Retry Delay = iota
	// Look is of what waits for something that nothing tells of.
	Look
)

// delays are the first and the longest time of each.
var delays = [2]struct{ first, last time.Duration }{
	Retry: {100 * time.Millisecond, 30 * time.Second},
	Look:  {time.Second, 5 * time.Minute},
}

// NewQueue returns an empty queue.
func NewQueue() *Queue {
	q := &Queue{begun: time.Now(), waits: make(map[time.Duration][]wait), failed: make(map[keys.ID]failure)}
	q.more = sync.NewCond(&q.mu)
	return q
}

// Add has a key looked at.
func (q *Queue) Add(id keys.ID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(id)
}

func (q *Queue) add(id keys.ID) {
	if q.due.set(id) && !q.busy.has(id) {
		q.ready++
		q.more.Signal()
	}
}

// Get waits for a key, which the caller has until Done. Down says that the queue is shut down.
func (q *Queue) Get() (id keys.ID, down bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.ready == 0 && !q.down {
		q.more.Wait()
	}
	if q.down {
		return 0, true
	}
	for {
		if q.next>>6 >= len(q.due) {
			q.next = 0
		}
		word := q.due[q.next>>6] & (^uint64(0) << (q.next & 63))
		if q.next>>6 < len(q.busy) {
			word &^= q.busy[q.next>>6]
		}
		if word != 0 {
			id = keys.ID(q.next&^63 + bits.TrailingZeros64(word)) //nolint:gosec // it was an ID
			break
		}
		q.next = q.next&^63 + 64
	}
	q.due.clear(id)
	q.busy.set(id)
	q.ready--
	q.next = int(id) + 1
	return id, false
}

// Len returns how many keys Get would return now.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ready
}

// Done gives back a key. It is looked at again if it was added since.
func (q *Queue) Done(id keys.ID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy.clear(id)
	if q.due.has(id) {
		q.ready++
		q.more.Signal()
	}
}

// AddAfter has a key looked at after a delay, unless that happens before.
func (q *Queue) AddAfter(id keys.ID, d Delay) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f := q.failed[id]
	after := min(delays[d].first<<f.delays[d], delays[d].last)
	if after < delays[d].last {
		f.delays[d]++
	}
	end := uint32((time.Since(q.begun)+after)/tick) + 1 //nolint:gosec // six years
	if f.end == 0 || f.end > end {
		f.end = end
		q.waits[after] = append(q.waits[after], wait{id, end})
	}
	q.failed[id] = f
	q.await()
}

// Forget says that a key has not failed in this way, so that the next delay is the first one.
func (q *Queue) Forget(id keys.ID, d Delay) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f, found := q.failed[id]
	if !found {
		return
	}
	if f.delays[d] = 0; f.delays != [2]uint8{} {
		q.failed[id] = f
		return
	}
	if delete(q.failed, id); len(q.failed) == 0 {
		q.failed = make(map[keys.ID]failure) // a map does not give back what it had room for
	}
}

// await looks at waits after a tick, if there are any.
func (q *Queue) await() {
	if !q.awaited && !q.down && len(q.waits) > 0 {
		q.awaited = true
		time.AfterFunc(tick, q.end)
	}
}

// end has the keys looked at whose waits have ended.
func (q *Queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := uint32(time.Since(q.begun) / tick) //nolint:gosec // six years
	for after, all := range q.waits {
		for len(all) > 0 && all[0].end <= now {
			// Others were forgotten, or wait for an earlier time.
			if f := q.failed[all[0].id]; f.end == all[0].end {
				f.end = 0
				q.failed[all[0].id] = f
				q.add(all[0].id)
			}
			all = all[1:]
		}
		if q.waits[after] = all; len(all) == 0 {
			delete(q.waits, after)
		}
	}
	q.awaited = false
	q.await()
}

// ShutDown has Get return at once from now on.
func (q *Queue) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.down = true
	q.more.Broadcast()
}

// bitmap has keys.
type bitmap []uint64

func (b bitmap) has(id keys.ID) bool { return int(id>>6) < len(b) && b[id>>6]&(1<<(id&63)) != 0 }

// set reports whether it did not have the key.
func (b *bitmap) set(id keys.ID) bool {
	for int(id>>6) >= len(*b) {
		*b = append(*b, 0)
	}
	before := b.has(id)
	(*b)[id>>6] |= 1 << (id & 63)
	return !before
}

func (b bitmap) clear(id keys.ID) { b[id>>6] &^= 1 << (id & 63) }
