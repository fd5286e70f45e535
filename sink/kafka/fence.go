// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// renewEvery is how often a producer that runs takes another epoch and writes another barrier. A coordinator forgets a
// transactional id that is not used for transactional.id.expiration.ms, a week by default, and would give the next
// process an id of its own, which fences no process. A partition forgets the epoch of a producer that does not write to
// it for producer.id.expiration.ms, a day, and would take what an older process sends then.
const renewEvery = 8 * time.Hour

// renew keeps the pipeline's producer known, until ctx ends.
func (s *Sink) renew(ctx context.Context) error {
	for s.writer.owned && pause.For(ctx, renewEvery) == nil {
		if err := s.insistOn(ctx, "producer", s.writer.nextEpoch); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		for _, t := range s.topics.opened() {
			for _, p := range t.partitions {
				p.take(s.writer.announcement(), func(sink.Receipt, error) {})
			}
		}
	}
	return nil
}

// barrier writes the first record of this process to a partition: nothing of an older one comes after it.
func (p *partition) barrier(ctx context.Context) error {
	var refused error
	l := p.alone(p.sink.writer.announcement(), func(_ sink.Receipt, err error) { refused = err })
	if err := p.deliver(ctx, l); err != nil {
		return err
	}
	if sink.IsPermanent(refused) {
		return unusable(p.topic.name, fmt.Sprintf("it takes no record of a few hundred bytes: %v", refused),
			"raise its "+settingSize)
	}
	return ctx.Err()
}

// open finds, checks and fences a topic. It may be called again after an error that is not final.
func (s *Sink) open(ctx context.Context, t *topic) error {
	if t.problem != nil {
		return t.problem
	}
	id, n, err := s.admin.find(ctx, t)
	if err != nil {
		return err
	}
	limit, err := s.admin.check(ctx, t)
	if err != nil {
		return err
	}
	if err := s.topics.countable(t.name, n); err != nil {
		return err
	}
	bounds, err := s.client.Bounds(ctx, t.name, n)
	if err != nil {
		return err
	}
	t.id = id
	t.limit.Store(min(limit, largestBatch))
	t.partitions = make([]*partition, n)
	for number := range t.partitions {
		p := newPartition(s, t, number)
		p.next.Store(bounds[p.number].Next)
		t.partitions[number] = p
	}
	s.topics.opening.Store(t) // a topic that is deleted now is found by looking at it: barriers only fail
	defer s.topics.opening.Store(nil)
	barriers, ctx := errgroup.WithContext(ctx)
	barriers.SetLimit(maxBarriers)
	for _, p := range t.partitions {
		barriers.Go(func() error { return p.barrier(ctx) })
	}
	return barriers.Wait() // what is wrong with a barrier is final
}

const (
	// largestBatch is what a batch is filled up to where the topic takes more.
	largestBatch = batch.DefaultLimit
	// maxBarriers is how many barriers are on their way at a time.
	maxBarriers = 16
)
