// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/holder"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/session"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
)

// fence takes epochs of the checkpoint's producer: a broker refuses what a process sends under an older one.
type fence struct {
	cfg     *Config
	session *session.Session
	broker  writer
	// plain: the producer's id is not that of the transactional id.
	plain bool
	// id is the last one that was given, and taken is when.
	id    kafka.Producer
	taken time.Time
}

// init returns an id that no process has had: the next epoch of the transactional id, or, without the permission for
// that, one of no transactional id. Recall finds out whether another process has come since, where the transactional id
// is forgotten.
func (f *fence) init(ctx context.Context, recall func(context.Context) error) (id kafka.Producer, err error) {
	name := f.cfg.transactionalID(f.session.Want)
	switch {
	case f.plain:
		return f.ask(ctx, "", nil)
	case !f.taken.IsZero():
		return f.next(ctx, name, recall)
	}
	id, err = f.ask(ctx, name, nil)
	if !kafka.Forbidden(err) {
		return id, err
	}
	if f.cfg.Elected {
		return id, f.session.Breaks(&UnfencedError{Path: f.session.Path, TransactionalID: name, Err: err})
	}
	f.cfg.Log.Warn("another process cannot be kept from using the same checkpoint: the permission to write to its "+
		"transactional id is missing",
		"transactionalId", name, "checkpoint", f.session.Path, "err", err)
	f.plain = true
	return f.ask(ctx, "", nil)
}

// next returns the epoch after the one that this store has had, unless another process has taken that.
func (f *fence) next(
	ctx context.Context, name string, recall func(context.Context) error,
) (kafka.Producer, error) {
	id, err := f.ask(ctx, name, &f.id)
	switch {
	case kafka.Fenced(err):
		return id, f.session.Breaks(&checkpoint.TakenError{Path: f.session.Path, Err: err})
	case !kafka.Confused(err):
		return id, err
	}
	// The coordinator has forgotten the transactional id. Whoever came since has left a barrier.
	if err := recall(ctx); err != nil {
		return id, err
	}
	return f.ask(ctx, name, nil)
}

func (f *fence) ask(ctx context.Context, name string, previous *kafka.Producer) (id kafka.Producer, err error) {
	err = again(ctx, f.session.Patience, func() (err error) {
		id, err = f.broker.InitProducer(ctx, name, previous)
		return err
	})
	return id, err
}

// name says which process this is. It is empty without the permission for the transactional id: then nothing refuses
// the barrier of an older process that comes late.
func (f *fence) name() string {
	if f.plain {
		return ""
	}
	return f.cfg.self.Text()
}

// renewEvery is how old the producer's epoch may get: a coordinator forgets a transactional id that is not used for
// transactional.id.expiration.ms, a week by default, and would give the next process an id of its own, which fences
// no other process.
const renewEvery = 24 * time.Hour

var errNewer = errors.New("its barrier is newer than that of this process")

// enlist takes the next epoch of the producer and writes the barrier, and the origin if there is none. A batch that was
// under way is forgotten.
func (s *Store) enlist(ctx context.Context) error {
	id, err := s.fence.init(ctx, func(ctx context.Context) error {
		_, err := s.replay(ctx)
		return err
	})
	if err != nil {
		return err
	}
	s.fence.id, s.fence.taken = id, time.Now()
	s.out.take(id)
	if !s.origin {
		s.out.append(s.log.keys.plain(kindOrigin), []byte{format}, batch.DefaultLimit)
	}
	s.appendBarrier(id, s.fence.name())
	return s.out.send(ctx, func() { s.barrier, s.origin = id, true })
}

// steady brings what is under way to its end. Where the broker and the producer do not agree any more, it takes another
// epoch and reads what there is, which it returns then.
func (s *Store) steady(ctx context.Context) (*replay, error) {
	if s.out.pending && !s.out.confused {
		if err := s.out.deliver(ctx); err != nil && !s.out.confused {
			return nil, err
		}
	}
	s.stale = s.stale || s.out.confused
	if s.out.confused || !s.fence.plain && time.Since(s.fence.taken) >= renewEvery {
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
	bounds, err := s.log.bounds(ctx, int(s.out.partition)+1)
	if err != nil {
		return nil, err
	}
	r := newReplay(s.log.cursor(s.out.partition, bounds[s.out.partition].First))
	return r, s.readOn(ctx, r)
}

// readOn reads what came after what r has, and makes it what the store knows.
func (s *Store) readOn(ctx context.Context, r *replay) error {
	bounds, err := s.log.bounds(ctx, int(s.out.partition)+1)
	if err != nil {
		return err
	}
	if err := r.readTo(ctx, max(s.out.end, bounds[s.out.partition].Next)); err != nil {
		return err
	}
	if err := r.admitWhole(s.session.Want); err != nil {
		return err
	}
	switch {
	case r.barrier != s.barrier:
		return s.session.Breaks(&checkpoint.TakenError{Path: s.session.Path, Err: errNewer})
	case r.head.number < s.head.number:
		return s.session.Breaks(&LostError{Path: s.session.Path, Has: r.head.number, Want: s.head.number})
	}
	s.head, s.numbers, s.litter, s.stale = r.head, r.numbers(), r.litter(s.log.keys), false
	for n := range r.chunks {
		s.present = max(s.present, n+1)
	}
	return nil
}

// gone reports whether the checkpoint is known to be unused.
func (r *replay) gone() bool { return r.user == "" || holder.Parse(r.user).Gone() }

// Hold implements [checkpoint.Holder].
func (s *Store) Hold(ctx context.Context) error {
	return s.session.Hold(ctx, func() error { return s.sign(ctx, s.fence.name()) })
}

// sign writes the barrier again, with the process that uses the checkpoint.
func (s *Store) sign(ctx context.Context, process string) error {
	if s.fence.plain {
		return nil
	}
	if _, err := s.steady(ctx); err != nil {
		return err
	}
	s.out.begin()
	s.appendBarrier(s.barrier, process)
	return s.out.send(ctx, nil)
}

func (s *Store) appendBarrier(id kafka.Producer, process string) {
	s.value = appendBarrier(s.value[:0], id, process)
	s.out.append(s.log.keys.plain(kindBarrier), s.value, batch.DefaultLimit)
}
