// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
)

const (
	// attempts are made of a commit that the broker refuses and that is not in the log.
	attempts = 10
	// leastLimit is the smallest batch that is tried where the broker takes less than its settings say.
	leastLimit = 4 << 10
	// overhead is more than a batch, a record, a chunk and a change have besides keys and values.
	overhead = 160
)

// commit returns nil once b is in the log.
func (s *Store) commit(ctx context.Context, b *checkpoint.Batch) error {
	for n := 1; ; n++ {
		if err := s.settle(ctx); err != nil {
			return err
		}
		c := s.plan(b)
		err := s.write(ctx, c)
		if err == nil {
			s.tidy(ctx)
			return nil
		}
		if !s.out.confused || n == attempts || kafka.TooLarge(err) && s.out.limit <= leastLimit {
			return err
		}
		if kafka.TooLarge(err) {
			s.out.limit = max(s.out.limit/2, leastLimit)
		}
		if _, err := s.steady(ctx); err != nil {
			return err
		}
		if s.head.number >= c.head.number {
			return nil // it was taken before the broker lost track
		}
	}
}

// settle brings to its end whatever an earlier commit has left.
func (s *Store) settle(ctx context.Context) error {
	r, err := s.steady(ctx)
	if err != nil || s.head.chunks == 0 {
		return err
	}
	if r == nil {
		if r, err = s.replay(ctx); err != nil {
			return err
		}
	}
	return s.apply(ctx, r.changes)
}

// changes are what the chunks have that the head speaks of. They were read once without an error.
func (r *replay) changes(yield func(key string, value []byte) bool) {
	more := true
	for n := uint64(0); n < r.head.chunks && more; n++ {
		_ = r.chunk(n, func(key, value []byte) error {
			more = more && yield(r.prefix+string(key), value)
			return nil
		})
	}
}

// write writes a commit, in one batch or by way of chunks.
func (s *Store) write(ctx context.Context, c *change) error {
	s.out.begin()
	for key, value := range c.records {
		if !s.out.append(key, value, s.out.limit) {
			return s.stage(ctx, c)
		}
	}
	if !s.appendHead(&c.head) {
		return s.stage(ctx, c)
	}
	return s.out.send(ctx, c.arrives(0))
}

func (s *Store) appendHead(h *head) bool {
	s.value = appendHead(s.value[:0], h)
	return s.out.append(s.log.keys.plain(kindHead), s.value, s.out.limit)
}

// stage writes the chunks of a commit, then the head that speaks of them, and then copies them.
func (s *Store) stage(ctx context.Context, c *change) error {
	n, room := uint64(0), s.out.limit-overhead-len(s.log.keys.prefix)
	s.beginChunk(c)
	empty := len(s.chunk)
	for key, value := range c.records {
		if overhead+len(key)+len(value) > s.out.limit {
			return fmt.Errorf("one record has %d bytes, more than topic %s takes in a batch (%d): raise max.message.bytes",
				len(key)+len(value), s.cfg.Topic, s.out.limit)
		}
		if len(s.chunk) > empty && len(s.chunk)+changeSize(key, value) > room {
			if err := s.sendChunk(ctx, n); err != nil {
				return err
			}
			n++
			s.beginChunk(c)
		}
		s.chunk = appendChange(s.chunk, key[len(s.log.keys.prefix):], value)
	}
	if err := s.sendChunk(ctx, n); err != nil {
		return err
	}
	c.head.chunks = n + 1
	s.out.begin()
	if !s.appendHead(&c.head) {
		return fmt.Errorf("the names of cluster and pipeline do not fit a batch of topic %s (%d bytes): raise "+
			"max.message.bytes", s.cfg.Topic, s.out.limit)
	}
	if err := s.out.send(ctx, c.arrives(n+1)); err != nil {
		return err
	}
	// It is committed. What fails now is done by the next commit, or the next process.
	_ = s.apply(ctx, c.records)
	return nil
}

func (s *Store) beginChunk(c *change) {
	s.chunk = binary.AppendUvarint(append(s.chunk[:0], format), c.head.number)
}

func (s *Store) sendChunk(ctx context.Context, n uint64) error {
	s.out.begin()
	if !s.out.append(s.log.keys.chunk(n), s.chunk, s.out.limit) {
		panic("BUG: chunk larger than a batch")
	}
	s.present = max(s.present, n+1)
	return s.out.send(ctx, nil)
}

// apply writes what the chunks have where it belongs, and then a head that does not speak of chunks.
func (s *Store) apply(ctx context.Context, records iter.Seq2[string, []byte]) error {
	if err := s.out.spread(ctx, records); err != nil {
		return err
	}
	done := s.head
	done.chunks = 0
	if !s.appendHead(&done) {
		if err := s.out.send(ctx, nil); err != nil {
			return err
		}
		s.appendHead(&done)
	}
	return s.out.send(ctx, func() { s.head = done })
}

// tidy removes what nothing speaks of any more, as far as it was read. What it does not come to is for another commit,
// or the next process: to look for the rows of a stream that was forgotten takes all of the log.
func (s *Store) tidy(ctx context.Context) {
	if s.head.chunks > 0 || s.out.pending {
		return
	}
	if s.present == 0 && len(s.litter) == 0 {
		return
	}
	if s.out.spread(ctx, s.rubbish) != nil {
		return
	}
	_ = s.out.send(ctx, func() { s.present, s.litter = 0, nil })
}

func (s *Store) rubbish(yield func(key string, value []byte) bool) {
	for n := range s.present {
		if !yield(s.log.keys.chunk(n), nil) {
			return
		}
	}
	for _, key := range s.litter {
		if !yield(key, nil) {
			return
		}
	}
}

// release lets large buffers go.
func (s *Store) release() {
	if !s.out.pending {
		s.out.reset(keptAfter)
	}
	if cap(s.chunk) > keptAfter {
		s.chunk = nil
	}
	if cap(s.value) > keptAfter {
		s.value = nil
	}
}
