// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
)

// renewEvery is how old the producer's epoch may get: a coordinator forgets a transactional id that is not used for
// transactional.id.expiration.ms, a week by default, and would give the next process an id of its own, which fences
// nobody.
const renewEvery = 24 * time.Hour

var errNewer = errors.New("its barrier is newer than that of this process")

// locate returns what the topic has of the checkpoint. That is in the partition of its name, unless the topic had
// another number of partitions when it was begun.
func (s *Store) locate(ctx context.Context, partitions int) (*replay, error) {
	bounds, err := s.bounds(ctx, partitions)
	if err != nil {
		return nil, err
	}
	home := batch.Partition(s.cfg.Name, int32(partitions)) //nolint:gosec // it was an int32 on the wire
	found := s.newReplay(home, bounds[home].First)
	if err := found.readTo(ctx, s.broker, bounds[home].Next); err != nil || found.begun() {
		return found, err
	}
	for p, b := range bounds {
		if p == home {
			continue
		}
		r := s.newReplay(p, b.First)
		if err := r.readTo(ctx, s.broker, b.Next); err != nil || r.begun() {
			return r, err
		}
	}
	return found, nil
}

func (s *Store) bounds(ctx context.Context, partitions int) (bounds map[int32]kafka.Bounds, err error) {
	err = again(ctx, s.patience, func() (err error) {
		bounds, err = s.broker.Bounds(ctx, s.cfg.Topic, partitions)
		return err
	})
	return bounds, err
}

func (s *Store) newReplay(partition int32, first int64) *replay {
	r := newReplay(s.path, s.cfg.Topic, partition, s.keys.prefix, first)
	r.patience = s.patience
	return r
}

// enlist takes the next epoch of the producer and writes the barrier, and the origin if there is none. A batch that was
// under way is forgotten.
func (s *Store) enlist(ctx context.Context) error {
	id, err := s.init(ctx)
	if err != nil {
		return err
	}
	s.taken = time.Now()
	s.out.take(id)
	if !s.origin {
		s.out.append(s.keys.plain(kindOrigin), []byte{format}, batch.DefaultLimit)
	}
	s.appendBarrier(id, s.name())
	return s.send(ctx, func() { s.barrier, s.origin = id, true })
}

// init returns an id that nobody has had: the next epoch of the transactional id, or, without the permission for that,
// one of nobody's.
func (s *Store) init(ctx context.Context) (id kafka.Producer, err error) {
	name := s.cfg.transactionalID(s.want)
	switch {
	case s.plain:
		return s.ask(ctx, "", nil)
	case !s.taken.IsZero():
		return s.next(ctx, name, s.out.id)
	}
	id, err = s.ask(ctx, name, nil)
	if !kafka.Forbidden(err) {
		return id, err
	}
	if s.cfg.Elected {
		return id, s.breaks(&UnfencedError{Path: s.path, TransactionalID: name, Err: err})
	}
	s.cfg.Log.Warn("another process cannot be kept from using the same checkpoint: the permission to write to its "+
		"transactional id is missing",
		"transactionalId", name, "checkpoint", s.path, "err", err)
	s.plain = true
	return s.ask(ctx, "", nil)
}

// next returns the epoch after the one that this store has had, unless another process has taken that.
func (s *Store) next(ctx context.Context, name string, had kafka.Producer) (kafka.Producer, error) {
	id, err := s.ask(ctx, name, &had)
	switch {
	case kafka.Fenced(err):
		return id, s.breaks(&TakenError{Path: s.path, Err: err})
	case !kafka.Confused(err):
		return id, err
	}
	// The coordinator has forgotten the transactional id. Whoever came since has left a barrier.
	if _, err := s.replay(ctx); err != nil {
		return id, err
	}
	return s.ask(ctx, name, nil)
}

func (s *Store) ask(ctx context.Context, name string, previous *kafka.Producer) (id kafka.Producer, err error) {
	err = again(ctx, s.patience, func() (err error) {
		id, err = s.broker.InitProducer(ctx, name, previous)
		return err
	})
	return id, err
}

// send hands the batch over; arrived is called once it is in the log.
func (s *Store) send(ctx context.Context, arrived func()) error {
	err := s.judge(s.out.send(ctx, arrived))
	if err == nil {
		s.wrote = time.Now()
	}
	return err
}

// judge tells what the broker says to a process that it has fenced from other errors.
func (s *Store) judge(err error) error {
	if kafka.Fenced(err) {
		return s.breaks(&TakenError{Path: s.path, Err: err})
	}
	return err
}

// steady brings what is under way to its end. Where the broker and the producer do not agree any more, it takes another
// epoch and reads what there is, which it returns then.
func (s *Store) steady(ctx context.Context) (*replay, error) {
	if s.out.pending && !s.out.confused {
		if err := s.judge(s.out.deliver(ctx)); err != nil && !s.out.confused {
			return nil, err
		}
	}
	s.stale = s.stale || s.out.confused
	if s.out.confused || !s.plain && time.Since(s.taken) >= renewEvery {
		if err := s.enlist(ctx); err != nil {
			return nil, err
		}
	}
	if !s.stale {
		return nil, nil
	}
	return s.replay(ctx)
}

// replay reads all that the partition has of the checkpoint.
func (s *Store) replay(ctx context.Context) (*replay, error) {
	bounds, err := s.bounds(ctx, int(s.out.partition)+1)
	if err != nil {
		return nil, err
	}
	r := s.newReplay(s.out.partition, bounds[s.out.partition].First)
	return r, s.readOn(ctx, r)
}

// readOn reads what came after what r has, and makes it what the store knows.
func (s *Store) readOn(ctx context.Context, r *replay) error {
	bounds, err := s.bounds(ctx, int(s.out.partition)+1)
	if err != nil {
		return err
	}
	if err := r.readTo(ctx, s.broker, max(s.out.end, bounds[s.out.partition].Next)); err != nil {
		return err
	}
	if err := r.admitWhole(s.want); err != nil {
		return err
	}
	switch {
	case r.barrier != s.barrier:
		return s.breaks(&TakenError{Path: s.path, Err: errNewer})
	case r.head.number < s.head.number:
		return s.breaks(&LostError{Path: s.path, Has: r.head.number, Want: s.head.number})
	}
	s.head, s.numbers, s.litter, s.stale = r.head, r.numbers(), r.litter(s.keys), false
	for n := range r.chunks {
		s.present = max(s.present, n+1)
	}
	return nil
}
