// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

const unlimited = math.MaxInt32

// partition has the messages of one partition on their way. They are put into loads as they come; one load at a time is
// sent, until the broker has answered for good.
type partition struct {
	sink  *Sink
	topic *topic
	// number is Kafka's, id that of receipts.
	number, id int32
	wake       chan struct{}

	// mu is held by whoever uses what follows.
	mu      sync.Mutex
	scribe  scribe
	waiting []*load // the last one is filled
	closed  bool

	// What follows is of run's goroutine only.
	producer kafka.Producer
	sequence int32
	failed   bool // the last attempt did
	// next is at most the offset that the next record will have: what is before it was acknowledged. told is what
	// others were told of it.
	next, told atomic.Int64
}

func newPartition(s *Sink, t *topic, number int) *partition {
	return &partition{
		sink: s, topic: t, number: int32(number), id: t.base + int32(number), wake: make(chan struct{}, 1), //nolint:gosec // at most some thousands
		scribe: scribe{names: &s.names, clock: s.cfg.Clock, tombstones: s.cfg.Tombstones},
	}
}

func (p *partition) String() string { return fmt.Sprintf("%s/%d", p.topic.name, p.number) }

// take adds a message to what waits. It never blocks.
func (p *partition) take(m *sink.Message, done sink.Done) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		done(sink.Receipt{}, sink.ErrNotRunning)
		return
	}
	p.put(m, done)
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// put fills the last load, or begins another one. The caller holds mu.
func (p *partition) put(m *sink.Message, done sink.Done) {
	limit := int(p.topic.limit.Load())
	if n := len(p.waiting); n > 0 && !p.waiting[n-1].large && p.scribe.append(p.waiting[n-1], m, done, limit) {
		return
	}
	l := p.sink.loads.take()
	p.waiting = append(p.waiting, l)
	if !p.scribe.append(l, m, done, limit) {
		l.large = true
		p.scribe.append(l, m, done, unlimited)
	}
}

// nextLoad waits for a load; it returns nil when ctx ends.
func (p *partition) nextLoad(ctx context.Context) *load {
	for {
		p.mu.Lock()
		if len(p.waiting) > 0 {
			l := p.waiting[0]
			p.waiting[0] = nil
			p.waiting = p.waiting[1:]
			p.mu.Unlock()
			return l
		}
		p.mu.Unlock()
		select {
		case <-p.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// run sends until ctx ends, or something is wrong that waiting does not cure.
func (p *partition) run(ctx context.Context) error {
	for {
		l := p.nextLoad(ctx)
		if l == nil {
			return nil
		}
		if err := p.deliver(ctx, l); err != nil {
			return err
		}
	}
}

// close refuses what comes, and settles what waits.
func (p *partition) close(err error) {
	p.mu.Lock()
	p.closed = true
	left := p.waiting
	p.waiting = nil
	p.mu.Unlock()
	for _, l := range left {
		p.settle(l, err)
	}
}

func (p *partition) settle(l *load, err error) {
	for _, e := range l.entries {
		e.done(sink.Receipt{}, err)
	}
}

// seal gives a load its place in the producer's sequence.
func (p *partition) seal(l *load) {
	switch {
	case p.sink.codec != nil:
		l.builder.Compress(p.sink.codec)
	case l.large:
		l.builder.Compress(p.sink.smaller)
	}
	p.adopt()
	l.builder.Seal(p.producer.ID, p.producer.Epoch, p.sequence)
}

// adopt goes over to the producer's newest epoch, in which sequences start at 0.
func (p *partition) adopt() {
	if now := p.sink.writer.current.Load().Producer; now != p.producer {
		p.producer, p.sequence = now, 0
	}
}

// deliver sends a load until it is answered for good, or ctx ends; either settles it. An error ends the sink.
func (p *partition) deliver(ctx context.Context, l *load) error {
	p.seal(l)
	mistimed, unanswered := 0, false // the broker may have it all the same
	for n := 1; ; n++ {
		offset, err := p.sink.client.Produce(ctx, p.topic.name, p.number, l.builder.Addressed(p.number))
		switch {
		case err == nil:
			return p.acknowledged(l, offset, n > 1)
		case ctx.Err() != nil:
			p.settle(l, ctx.Err())
			return nil
		case kafka.Repeated(err):
			return p.acknowledged(l, -1, true)
		case kafka.Fenced(err):
			return p.giveUp(l, p.sink.writer.fenced(p.topic.name, err))
		case kafka.Mistimed(err) && p.earlier(l, &mistimed):
			continue
		case kafka.Confused(err), unanswered && (kafka.TooLarge(err) || kafka.Malformed(err)):
			return p.giveUp(l, p.sink.doubt(ctx, p, err))
		case kafka.TooLarge(err), kafka.Malformed(err):
			return p.refused(ctx, l, err)
		}
		p.failed, unanswered = true, true
		p.sink.health.failing(p.String(), err)
		if pause.For(ctx, pause.Backoff(n, p.sink.cfg.Wait, maxWait)) != nil {
			p.settle(l, ctx.Err())
			return nil
		}
		p.sink.cfg.OnRetry(p.topic.name, p.number, err)
	}
}

func (p *partition) giveUp(l *load, err error) error {
	p.settle(l, err)
	return err
}

// acknowledged settles a load that the partition has from an offset on; a negative offset is not known.
func (p *partition) acknowledged(l *load, offset int64, again bool) error {
	records := int64(l.builder.Len())
	p.sequence = batch.NextSequence(p.sequence, int(records))
	if next := p.next.Load(); offset >= 0 && offset < next {
		return p.giveUp(l, rewound("partition "+p.String(), next, offset))
	}
	if offset >= 0 {
		p.next.Store(offset + records)
	}
	if p.failed {
		p.failed = false
		p.sink.health.working(p.String())
	}
	at := offset
	for _, e := range l.entries {
		r := sink.Receipt{Partition: p.id}
		if offset >= 0 {
			r.Sequence = uint64(at) + 1
			at += int64(e.records)
		}
		e.done(r, nil)
	}
	p.sink.loads.put(l, again)
	return nil
}

// earlier stamps a load, of which the broker has stored nothing because of its time, again, and gives it the same place
// in the producer's sequence. It is false if that was tried often enough; times is how often.
func (p *partition) earlier(l *load, times *int) bool {
	*times++
	stamp, ok := p.sink.cfg.Clock.Refused(time.UnixMilli(l.builder.Newest()), *times)
	if !ok {
		return false
	}
	if p.sink.misled.CompareAndSwap(false, true) {
		p.sink.cfg.Log.Warn("the clock of this machine is ahead of the brokers', which refuse its timestamps: records are "+
			"stamped earlier until they are taken", "at", p.String())
	}
	l.builder.Restamp(stamp.UnixMilli())
	l.builder.Seal(p.producer.ID, p.producer.Epoch, p.sequence)
	return true
}
