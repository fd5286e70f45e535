// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"sync/atomic"
	"time"
)

// What is read ahead of the broker, in bytes.
const (
	// readAhead keeps the broker busy. A list is read no further: its next page waits for minutes at the API server.
	readAhead = 16 << 20
	// A watch has to be read, or its history is lost. So beyond readAhead it is read more slowly, by a step at a time: a
	// burst does not fill the memory only because the API server is faster than a broker that keeps up.
	readStep, stepWait = 4 << 20, 100 * time.Millisecond
)

// budget bounds the bytes that a pipeline holds between the wire and the broker's acknowledgement.
type budget struct {
	all, lists *room
	bytes      atomic.Int64
	count      atomic.Int64
	// ahead is how many bytes may be held before a watch pauses; drained tells one that pauses that half of readAhead is left.
	ahead   atomic.Int64
	drained chan struct{}
}

func newBudget(limit int64) *budget {
	b := &budget{all: newRoom(limit), lists: newRoom(min(limit, readAhead)), drained: make(chan struct{}, 1)}
	b.ahead.Store(readAhead)
	return b
}

// limit returns how many bytes may be held.
func (b *budget) limit() int64 { return b.all.size() }

// setLimit has another number of bytes be held at most, once those that are have become fewer.
func (b *budget) setLimit(limit int64) {
	b.all.setLimit(limit)
	b.lists.setLimit(min(limit, readAhead))
}

// acquire waits for room; listed is whether it is for an item of a list.
func (b *budget) acquire(ctx context.Context, size int, listed bool) error {
	var err error
	if listed {
		err = b.lists.acquire(ctx, size)
	} else {
		err = b.pace(ctx)
	}
	if err != nil {
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

// pace pauses a watch that is far ahead of the broker, for stepWait at most.
func (b *budget) pace(ctx context.Context) error {
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

// release gives back what was acquired; what has no size was not.
func (b *budget) release(size int, listed bool) {
	if size == 0 {
		return
	}
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
