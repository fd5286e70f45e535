// SPDX-License-Identifier: Apache-2.0

package kafkalog

import (
	"context"
	"errors"
	"sync"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
)

const (
	// pastDepth is how far back in a partition an earlier message of a key is looked for, pastStep how much of that at
	// a time.
	pastDepth = 4096
	pastStep  = 512
	// pastBytes bounds what is kept of what was found.
	pastBytes = 32 << 20
)

// place is a partition.
type place struct {
	topic  string
	number int32
}

// past knows the last message of keys before the one that is being handed over. It reads backwards, and each part of a
// partition once. It is safe for concurrent use, but knows nothing of any other message.
type past struct {
	from fetcher

	mu   sync.Mutex
	size int
	// full says that there was more than could be kept: nothing is known any more.
	full bool
	of   map[place]*backwards
	// current is what is being handed over, oldest the first offset of its partition.
	current *item
	oldest  int64
}

// backwards is what is known of a partition. What is not in last may be anything before from.
type backwards struct {
	from, floor int64
	// last has the last item of a key, nil where that was handed over and is not kept here.
	last map[string]*item
}

func newPast(from fetcher) *past { return &past{from: from, of: make(map[place]*backwards)} }

// begin says what is handed over.
func (p *past) begin(it *item, oldest int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current, p.oldest = it, oldest
}

// done says that the item was handed over: what was the last of its key is not any more.
func (p *past) done(it *item) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = nil
	if b := p.of[place{it.Subject, it.Partition}]; b != nil && it.key != "" {
		p.keep(b, it.key, nil)
	}
}

// clear forgets everything: the log is another one.
func (p *past) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.size, p.full, p.of, p.current, p.oldest = 0, false, make(map[place]*backwards), nil, 0
}

func (p *past) before(ctx context.Context, m *event.Message) *event.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	it := p.current
	if it == nil || p.full || it.key == "" || m.Subject != it.Subject || m.Partition != it.Partition ||
		m.Sequence != it.Sequence {
		return nil
	}
	at := place{it.Subject, it.Partition}
	b := p.of[at]
	if b == nil {
		b = &backwards{from: it.offset(), floor: max(p.oldest, it.offset()-pastDepth), last: make(map[string]*item)}
		p.of[at] = b
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	for {
		found, known := b.last[it.key]
		switch {
		case known && found != nil:
			return &found.Message
		case known || b.from <= b.floor || p.full:
			return nil
		}
		if p.further(ctx, at, b) != nil {
			return nil
		}
	}
}

// further reads another part of what is before that is known of a partition.
func (p *past) further(ctx context.Context, at place, b *backwards) error {
	from := max(b.floor, b.from-pastStep)
	found := make(map[string]*item)
	err := scan(ctx, p.from, at, from, b.from, func(r *kafka.Record) error {
		if r.Value != nil && len(r.Key) > 0 {
			it := convert(at.topic, at.number, r)
			found[it.key] = &it
		}
		return nil
	})
	if kafka.OutOfRange(err) { // it was removed
		b.floor = b.from
		return nil
	}
	if err != nil {
		return err
	}
	b.from = from
	for key, it := range found {
		if _, known := b.last[key]; !known {
			p.keep(b, key, it)
		}
	}
	return nil
}

// keep remembers the last item of a key, nil for one that is not kept.
func (p *past) keep(b *backwards, key string, it *item) {
	if p.full {
		return
	}
	old, known := b.last[key]
	if !known {
		p.size += len(key) + overhead
	}
	if old != nil {
		p.size -= old.size()
	}
	if it != nil {
		p.size += it.size()
	}
	b.last[key] = it
	if p.size > pastBytes {
		p.full, p.of = true, nil
	}
}

// errEnough ends a fetch that has shown what was looked for.
var errEnough = errors.New("enough")

// scan calls f for the records of a part of a partition.
func scan(ctx context.Context, c fetcher, at place, from, to int64, f func(*kafka.Record) error) error {
	for from < to {
		next, _, err := c.Fetch(ctx, at.topic, at.number, from, func(r *kafka.Record) error {
			if r.Offset >= to {
				return errEnough
			}
			return f(r)
		})
		switch {
		case errors.Is(err, errEnough):
			return nil
		case err != nil:
			return err
		case next <= from: // the log is shorter than it was
			return nil
		}
		from = next
	}
	return nil
}
