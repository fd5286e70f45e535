// SPDX-License-Identifier: Apache-2.0

package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
)

const (
	// bodiesBytes bounds what is kept of what At has fetched; the last fetch may be beyond it.
	bodiesBytes = 32 << 20
	// leastBody and mostBody are how much At fetches: more with each request that goes on where the last one ended.
	leastBody = 64 << 10
	mostBody  = 4 << 20
	// bodiesAtOnce is how many partitions At fetches from at a time.
	bodiesAtOnce = 4
)

// bodies keeps what single messages were looked for in. It is safe for concurrent use.
type bodies struct {
	from  fetcher
	slots chan struct{}

	mu sync.Mutex
	// of has a permission to fetch for each lane: who waits for it finds what the one before has fetched.
	of map[uint16]chan struct{}
	// chunks are what was fetched, the least recently used ones first; size is how much that is.
	chunks []*chunk
	size   int
}

// chunk is a part of a partition, without the records that have no value.
type chunk struct {
	lane       uint16
	from, next int64
	items      []item
	size       int
	// most is how much was asked for.
	most int64
}

func newBodies(from fetcher) *bodies {
	return &bodies{from: from, slots: make(chan struct{}, bodiesAtOnce), of: make(map[uint16]chan struct{})}
}

// At implements [event.Bodies]. A fetch brings more than the one message: what is near is kept for a while, also
// when brokers remove it. A position in a partition that was replaced is one that the log does not have any more.
func (l *Log) At(ctx context.Context, position uint64) (*event.Message, error) {
	lane, offset := split(position)
	at, lanes := l.lanes.at(lane)
	if lanes == 0 || offset < 0 {
		return nil, nil
	}
	m, err := l.bodies.at(ctx, lane, at, offset)
	if kafka.OutOfRange(err) {
		m, err = nil, l.removed(ctx, at, offset)
	}
	if err != nil {
		return nil, fmt.Errorf("read offset %d of partition %d of topic %s at %s: %w", offset, at.number, at.topic,
			l.brokers(), err)
	}
	if m == nil {
		return nil, nil
	}
	found := *m
	found.Position, found.Lane, found.Lanes = position, lane, lanes
	return &found, nil
}

// removed returns nil if a partition begins behind an offset: retention has removed what was there. A partition that
// ends before the offset may be one whose broker has just started, so it says nothing.
func (l *Log) removed(ctx context.Context, at place, offset int64) error {
	bounds, err := l.Bounds(ctx, at.topic, int(at.number)+1)
	if err != nil {
		return err
	}
	if b := bounds[at.number]; offset >= b.First {
		return fmt.Errorf("the partition ends at %d", b.Next)
	}
	return nil
}

func (b *bodies) at(ctx context.Context, lane uint16, at place, offset int64) (*event.Message, error) {
	if c, _ := b.find(lane, offset); c != nil {
		return c.at(offset), nil
	}
	permission := b.permission(lane)
	for _, wait := range []chan struct{}{permission, b.slots} {
		select {
		case wait <- struct{}{}:
			defer func() { <-wait }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	c, before := b.find(lane, offset)
	if c == nil {
		var err error
		if c, err = b.fetch(ctx, lane, at, offset, before); err != nil {
			return nil, err
		}
		b.keep(c)
	}
	return c.at(offset), nil
}

func (b *bodies) permission(lane uint16) chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of[lane] == nil {
		b.of[lane] = make(chan struct{}, 1)
	}
	return b.of[lane]
}

// find returns the chunk that has an offset, and otherwise the one that ends closest before it.
func (b *bodies) find(lane uint16, offset int64) (found, before *chunk) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, c := range b.chunks {
		switch {
		case c.lane != lane || offset < c.from:
		case offset < c.next:
			b.chunks = append(slices.Delete(b.chunks, i, i+1), c)
			return c, nil
		case before == nil || before.next < c.next:
			before = c
		}
	}
	return nil, before
}

// fetch reads from an offset on. It reads more if this is near what was read before.
func (b *bodies) fetch(ctx context.Context, lane uint16, at place, offset int64, before *chunk) (*chunk, error) {
	c := &chunk{lane: lane, from: offset, most: leastBody}
	if before != nil && offset-before.next <= before.next-before.from {
		c.most = min(4*before.most, mostBody)
	}
	next, end, err := b.from.FetchAtMost(ctx, at.topic, at.number, offset, c.most, func(r *kafka.Record) error {
		if r.Value != nil {
			it := convert(at.topic, at.number, r)
			c.items = append(c.items, it)
			c.size += it.size()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if next <= offset {
		return nil, fmt.Errorf("%w: the partition ends at %d", errNothing, end)
	}
	c.next = next
	return c, nil
}

// errNothing says that a fetch has brought nothing.
var errNothing = errors.New("no answer has the record")

func (b *bodies) keep(c *chunk) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.chunks = append(b.chunks, c)
	b.size += c.size + overhead
	for b.size > bodiesBytes && len(b.chunks) > 1 {
		b.size -= b.chunks[0].size + overhead
		b.chunks[0] = nil
		b.chunks = b.chunks[1:]
	}
}

// at returns the message at an offset; nil if there is none.
func (c *chunk) at(offset int64) *event.Message {
	i, found := slices.BinarySearchFunc(c.items, offset, func(it item, o int64) int { return int(it.offset() - o) })
	if !found {
		return nil
	}
	return &c.items[i].Message
}
