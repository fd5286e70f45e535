// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/holder"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

// gone reports whether the checkpoint is known to be unused.
func (r *replay) gone() bool { return r.user == "" || holder.Parse(r.user).Gone() }

// awaitEnd returns nil once no other process uses the checkpoint: it has closed it, has ended, or has written nothing
// for [holder.Silence]. The error is a [*checkpoint.HeldError] if the other one writes. R reads on meanwhile.
func (s *Store) awaitEnd(ctx context.Context, r *replay) error {
	for began := time.Now(); !s.cfg.Elected && !r.gone() && time.Since(began) < holder.Silence; {
		if err := pause.For(ctx, holder.Look); err != nil {
			return err
		}
		bounds, err := s.bounds(ctx, int(r.partition)+1)
		if err != nil {
			return err
		}
		known := r.records
		if err := r.readTo(ctx, s.broker, bounds[r.partition].Next); err != nil {
			return err
		}
		if r.records > known && !r.gone() {
			return &checkpoint.HeldError{Holder: holder.Parse(r.user).String()}
		}
	}
	return nil
}

// Hold implements [checkpoint.Holder].
func (s *Store) Hold(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil || time.Since(s.wrote) < holder.Every {
		return err
	}
	s.bePatient(holder.Every)
	return s.sign(ctx, s.name())
}

// leave says that this process does not use the checkpoint any more, so that the next one need not wait. That is an
// attempt: who waits finds out.
func (s *Store) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), holder.Farewell)
	defer cancel()
	s.bePatient(0)
	_ = s.sign(ctx, "")
}

// name says which process this is. It is empty without the permission for the transactional id: then nothing refuses
// the barrier of an older process that comes late.
func (s *Store) name() string {
	if s.plain {
		return ""
	}
	return s.cfg.self.Text()
}

// sign writes the barrier again, with the process that uses the checkpoint.
func (s *Store) sign(ctx context.Context, process string) error {
	if s.plain {
		return nil
	}
	if _, err := s.steady(ctx); err != nil {
		return err
	}
	s.out.begin()
	s.appendBarrier(s.barrier, process)
	return s.send(ctx, nil)
}

func (s *Store) appendBarrier(id kafka.Producer, process string) {
	s.value = appendBarrier(s.value[:0], id, process)
	s.out.append(s.keys.plain(kindBarrier), s.value, batch.DefaultLimit)
}
