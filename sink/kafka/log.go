// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

var _ sink.Log = (*Sink)(nil)

// Bounds implements [sink.Log]: a message's sequence is its offset and one. The ID is that of the cluster and of the
// topic, where there is one topic only. The barriers of this process are in what Bounds returns. Once Run has ended the
// error is [sink.ErrNotRunning].
func (s *Sink) Bounds(ctx context.Context, expected map[int32]uint64) (sink.LogBounds, error) {
	var found sink.LogBounds
	var doubted time.Time
	err := s.insist(ctx, func(ctx context.Context) error {
		bounds, err := s.bounds(ctx)
		if err != nil {
			return err
		}
		for partition, b := range bounds.Partitions {
			if b.Last >= expected[partition] {
				continue
			}
			if doubted.IsZero() {
				doubted = time.Now()
			}
			if time.Since(doubted) < s.cfg.patience() {
				return fmt.Errorf("partition %d ends at %d, and is expected to end at %d", partition, b.Last, expected[partition])
			}
		}
		found = bounds
		return nil
	})
	if err != nil {
		return sink.LogBounds{}, fmt.Errorf("bounds of topic %s: %w", s.cfg.Topic, err)
	}
	return found, nil
}

func (s *Sink) bounds(ctx context.Context) (sink.LogBounds, error) {
	all := sink.LogBounds{Partitions: map[int32]sink.Bounds{}, Fenced: true}
	for _, t := range s.topics.opened() {
		cluster, id, err := s.client.Incarnation(ctx, t.name)
		if err != nil {
			return sink.LogBounds{}, err
		}
		if all.ID = cluster; s.topics.only != "" {
			all.ID += "/" + id
		}
		bounds, err := s.client.Bounds(ctx, t.name, len(t.partitions))
		if err != nil {
			return sink.LogBounds{}, err
		}
		for number, b := range bounds {
			all.Partitions[t.base+number] = sink.Bounds{First: uint64(b.First) + 1, Last: uint64(b.Next)} //nolint:gosec // offsets are not negative
			raise(&t.partitions[number].told, b.Next)
		}
	}
	return all, nil
}

// At implements [sink.Log]. A structured message has its data. Once Run has ended the error is [sink.ErrNotRunning].
func (s *Sink) At(ctx context.Context, partition int32, sequence uint64) (found *sink.Stored, err error) {
	if sequence == 0 {
		return nil, nil
	}
	err = s.insist(ctx, func(ctx context.Context) error {
		found = nil
		p := s.topics.partition(partition)
		if p == nil {
			return nil
		}
		r, err := s.client.At(ctx, p.topic.name, p.number, int64(sequence)-1) //nolint:gosec // it came from an offset
		if err == nil && r != nil && r.Value != nil {
			found = Decode(partition, r, false)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("message %d of partition %d: %w", sequence, partition, err)
	}
	return found, nil
}

// errEnough ends a fetch that has shown what was looked for.
var errEnough = errors.New("enough")

// Read implements [sink.Log]. It reads one partition after the other, and all of them if [sink.Query].LastOfKey is set.
// Records without a value are not shown, and of a message that was published everywhere only the one that was published
// last. Once Run has ended the error is [sink.ErrNotRunning].
func (s *Sink) Read(ctx context.Context, q sink.Query, f func(*sink.Stored) error) error {
	var bounds sink.LogBounds
	err := s.insist(ctx, func(ctx context.Context) (err error) {
		bounds, err = s.bounds(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("read topic %s: %w", s.cfg.Topic, err)
	}
	for _, t := range s.topics.opened() {
		for _, p := range t.partitions {
			b := bounds.Partitions[p.id]
			from := max(q.After[p.id]+1, b.First)
			if err := s.readPartition(ctx, p, from, b.Last, q.Data, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// readPartition hands on the messages from one sequence to another.
func (s *Sink) readPartition(
	ctx context.Context, p *partition, from, to uint64, data bool, f func(*sink.Stored) error,
) error {
	offset, end := int64(from)-1, int64(to) //nolint:gosec // they came from offsets
	var stopped error
	for offset < end {
		err := s.insist(ctx, func(ctx context.Context) error {
			next, _, err := s.client.Fetch(ctx, p.topic.name, p.number, offset, func(r *kafka.Record) error {
				switch {
				case r.Offset >= end:
					return errEnough
				case p.shows(r):
					stopped = f(Decode(p.id, r, data))
				}
				offset = r.Offset + 1
				return stopped
			})
			switch {
			case stopped != nil:
				return nil
			case errors.Is(err, errEnough):
				offset = end
				return nil
			case kafka.OutOfRange(err):
				return s.forward(ctx, p, &offset, end)
			case err == nil:
				offset = max(offset, next)
			}
			return err
		})
		switch {
		case err != nil:
			return fmt.Errorf("read partition %s: %w", p, err)
		case stopped != nil:
			return stopped
		}
	}
	return nil
}

// shows reports whether a record is one of those that are read. Of a marker's copies the one in the partition of its
// key counts, which was published last: without that one a crash has kept it from partitions.
func (p *partition) shows(r *kafka.Record) bool {
	return r.Value != nil && (!IsMarker(r) || p.topic.home(string(r.Key)) == p)
}

// forward goes on where a partition begins now: what was to be read was removed meanwhile.
func (s *Sink) forward(ctx context.Context, p *partition, offset *int64, end int64) error {
	bounds, err := s.client.Bounds(ctx, p.topic.name, len(p.topic.partitions))
	if err != nil {
		return err
	}
	b := bounds[p.number]
	if b.First > *offset {
		*offset = min(b.First, end)
	} else {
		*offset = end // it was cut off: nothing is left of it
	}
	return nil
}

// insist calls attempt when the topics are open until it succeeds, with pauses that grow. It fails when ctx or Run
// ends.
func (s *Sink) insist(ctx context.Context, attempt func(context.Context) error) error {
	select {
	case <-s.up:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.over:
		return sink.ErrNotRunning
	}
	for n := 1; ; n++ {
		err := attempt(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case s.ended():
			return sink.ErrNotRunning
		}
		s.health.often.Do(func() { s.cfg.Log.Warn("the log cannot be read", "err", err) })
		s.rest(ctx, n)
	}
}

// rest waits after the n-th failure, until ctx or Run ends.
func (s *Sink) rest(ctx context.Context, n int) {
	t := time.NewTimer(pause.Backoff(n, s.cfg.Wait, maxWait))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-s.over:
	}
}

func (s *Sink) ended() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}
