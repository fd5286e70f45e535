// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/holder"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
)

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
