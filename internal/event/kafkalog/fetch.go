// SPDX-License-Identifier: Apache-2.0

package kafkalog

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
)

// fetches bring what partitions have.
type fetches struct {
	work sync.WaitGroup
	// loads has what they brought.
	loads chan load
	// past and future bound how many are under way, of what is there already and of what is yet to come.
	past, future chan struct{}
}

func newFetches() fetches {
	return fetches{
		loads: make(chan load), past: make(chan struct{}, fetchesAtOnce), future: make(chan struct{}, waitsAtOnce),
	}
}

// load is what a fetch has brought.
type load struct {
	p     *partition
	items []item
	// next is the offset to go on from.
	next, end int64
	sought    bool
	err       error
}

// begin fetches about share bytes of a partition, in a goroutine of its own.
func (f *fetches) begin(ctx context.Context, from *Log, p *partition, share int) {
	slots := f.past
	if p.next >= p.high {
		slots = f.future
	}
	l := load{p: p, next: p.next, sought: p.sought || p.since.IsZero()}
	at, since, high := p.place, p.since, p.high
	f.work.Go(func() {
		select {
		case slots <- struct{}{}:
			from.fetch(ctx, at, since, high, share, &l)
			<-slots
		case <-ctx.Done():
			return
		}
		select {
		case f.loads <- l:
		case <-ctx.Done():
		}
	})
}

// fetch fills a load with about share bytes.
func (l *Log) fetch(ctx context.Context, at place, since time.Time, high int64, share int, to *load) {
	if !to.sought {
		offset, err := l.seek(ctx, at, high, since)
		if to.err = err; err != nil {
			return
		}
		to.next, to.sought = max(to.next, offset), true
	}
	size := 0
	next, end, err := l.Fetch(ctx, at.topic, at.number, to.next, func(rec *kafka.Record) error {
		if rec.Value != nil {
			it := convert(at.topic, at.number, rec)
			to.items = append(to.items, it)
			size += it.size()
		}
		to.next = rec.Offset + 1
		if size >= share {
			return errEnough
		}
		return nil
	})
	to.end = end
	switch {
	case err == nil:
		to.next = max(to.next, next)
	case !errors.Is(err, errEnough):
		to.err = err
	}
}

// ask fetches more of a partition, if there is room and anything to be had.
func (r *reader) ask(ctx context.Context, p *partition) {
	share := max(leastShare, budgetBytes/2/len(r.topics.partitions))
	if p.asked || p.closed || p.loss.seen || p.topic.missing || p.queue.size > share || !r.follow && !p.behind() ||
		time.Now().Before(p.trouble.again) {
		return
	}
	p.asked = true
	r.fetches.begin(ctx, r.Log, p, share)
}

// take queues what a fetch has brought.
func (r *reader) take(ctx context.Context, l load) error {
	p := l.p
	p.asked = false
	if p.closed {
		return nil
	}
	p.next, p.high, p.sought = max(p.next, l.next), max(p.high, l.end), l.sought
	for _, it := range l.items {
		if p.admit(&it, r.follow, r.Until) {
			p.queue.push(it)
		}
	}
	if len(p.queue.items) == 0 {
		r.lanes.passed(p.lane, p.next, false)
	}
	if l.err != nil {
		return r.failed(p, l.err)
	}
	p.trouble = trouble{again: p.trouble.again}
	r.reads()
	r.ask(ctx, p)
	return nil
}
