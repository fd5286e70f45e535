// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

// What is read ahead of the broker, in bytes.
const (
	// readAhead keeps the broker busy. A list is read no further: its next page waits for minutes at the API server.
	readAhead = 16 << 20
	// A watch has to be read, or its history is lost. So beyond readAhead it is read more slowly, by a step at a time:
	// a burst does not fill the memory only because the API server is faster than a broker that keeps up.
	readStep, stepWait = 4 << 20, 100 * time.Millisecond
	// leastSize is how much a change counts at least: no less than what is held of its object if it is a deletion, once
	// that is published.
	leastSize = 640
)

// Budget bounds the bytes that a pipeline holds: between the wire and the broker's acknowledgement, of deleted objects,
// and of previous states. Two things pass the limit: a change for which there is no room is held where no other one is,
// and what [Budget.Hold] is told was not asked for. Its methods may be called by several goroutines at a time.
type Budget struct {
	all, lists *semaphore
	bytes      atomic.Int64
	count      atomic.Int64
	// ahead is how many bytes may be held before a watch pauses; drained tells one that pauses that half of readAhead
	// is left.
	ahead   atomic.Int64
	drained chan struct{}
}

// NewBudget returns a budget of so many bytes.
func NewBudget(limit int64) *Budget {
	b := &Budget{all: newSemaphore(limit), lists: newSemaphore(min(limit, readAhead)), drained: make(chan struct{}, 1)}
	b.ahead.Store(readAhead)
	return b
}

// Limit returns how many bytes may be held.
func (b *Budget) Limit() int64 { return b.all.size() }

// SetLimit has another number of bytes be held at most, once those that are have become fewer.
func (b *Budget) SetLimit(limit int64) {
	b.all.setLimit(limit)
	b.lists.setLimit(min(limit, readAhead))
}

// Bytes returns how many bytes are held in all.
func (b *Budget) Bytes() int64 {
	all, _ := b.all.held()
	return all
}

// Gone returns how many of them are held of objects that are gone.
func (b *Budget) Gone() int64 {
	_, gone := b.all.held()
	return gone
}

// Keep holds so many bytes more of previous states; a negative number gives bytes back. It returns false where the
// limit would be passed, or a quarter of what deleted objects leave.
func (b *Budget) Keep(bytes int64) bool { return b.all.keep(bytes) }

// CanKeep reports whether so many bytes of previous states could be held if no others were.
func (b *Budget) CanKeep(bytes int64) bool {
	fits, _ := b.all.keeps(bytes)
	return fits
}

// KeepsTooMuch reports whether previous states take more than a quarter of what deleted objects leave now.
func (b *Budget) KeepsTooMuch() bool {
	_, over := b.all.keeps(0)
	return over
}

// Hold has so many bytes more be held of objects that are gone, or fewer. It never waits. They become fewer as
// positions move and are saved, for which something has to be read.
func (b *Budget) Hold(bytes int64) { b.all.reserve(bytes) }

// Count returns how many changes are held.
func (b *Budget) Count() int64 { return b.count.Load() }

// Acquire waits until a change of so many bytes may be held; listed is whether it is an item of a list. The error is
// ctx's; then nothing was taken.
func (b *Budget) Acquire(ctx context.Context, size int, listed bool) error {
	size = max(size, leastSize)
	wait := b.pace
	if listed {
		wait = func(ctx context.Context) error { return b.lists.acquire(ctx, size) }
	}
	if err := wait(ctx); err != nil {
		return err
	}
	if err := b.all.acquire(ctx, size); err != nil {
		if listed {
			b.lists.release(size)
		}
		return err
	}
	b.bytes.Add(int64(size))
	b.count.Add(1)
	return nil
}

// AwaitGone waits while what is held of objects that are gone takes half of the limit or more, and pass, which is asked
// every stepWait, returns false. It is for what a watch shows: a list may be what makes room. The error is ctx's.
func (b *Budget) AwaitGone(ctx context.Context, pass func() bool) error {
	for b.Gone() >= b.Limit()/2 && !pass() {
		if err := pause.For(ctx, stepWait); err != nil {
			return err
		}
	}
	return nil
}

// pace pauses a watch that is far ahead of the broker, for stepWait at most.
func (b *Budget) pace(ctx context.Context) error {
	if b.bytes.Load() < b.ahead.Load() {
		return nil
	}
	t := time.NewTimer(stepWait)
	defer t.Stop()
	select {
	case <-b.drained:
	case <-t.C:
		b.ahead.Add(readStep)
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// Release gives back what was acquired; what has no size was not.
func (b *Budget) Release(size int, listed bool) {
	if size == 0 {
		return
	}
	size = max(size, leastSize)
	const low = readAhead / 2
	if left := b.bytes.Add(-int64(size)); left < low && left+int64(size) >= low {
		b.ahead.Store(readAhead)
		select {
		case b.drained <- struct{}{}:
		default: // nobody has needed the last word yet
		}
	}
	b.count.Add(-1)
	b.all.release(size)
	if listed {
		b.lists.release(size)
	}
}
