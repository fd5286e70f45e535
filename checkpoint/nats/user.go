// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/holder"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

// user is who has written to a checkpoint last.
type user struct {
	// writer is 0 if the checkpoint has no message.
	writer uint64
	// holder is zero as long as no message was read that tells.
	holder holder.Holder
	closed bool
}

// take takes the next message.
func (u *user) take(m *message) {
	if u.writer != m.writer {
		*u = user{writer: m.writer}
	}
	u.closed = m.kind == kindWriter && len(m.body) == 0
	if m.kind == kindWriter && !u.closed {
		u.holder = holder.Parse(string(m.body))
	}
}

// gone reports whether the checkpoint is known to be unused.
func (u *user) gone() bool { return u.writer == 0 || u.closed || u.holder.Gone() }

func (u *user) held() error { return &checkpoint.HeldError{Holder: u.holder.String()} }

// awaitEnd returns nil once no other process uses the checkpoint: it has closed it, has ended, or has written nothing
// for [holder.Silence]. The error is a [*checkpoint.HeldError] if the other one writes.
func (s *Store) awaitEnd(ctx context.Context, r *replay) error {
	u := r.user
	for began := time.Now(); !s.cfg.Elected && !u.gone() && time.Since(began) < holder.Silence; {
		if err := pause.For(ctx, holder.Look); err != nil {
			return err
		}
		last, at, err := s.log.newest(ctx)
		if err != nil {
			return err
		}
		if u.take(&last); at != r.sequence && !u.gone() {
			return u.held()
		}
	}
	return nil
}

// Hold implements [checkpoint.Holder].
func (s *Store) Hold(ctx context.Context) error {
	return s.session.Hold(ctx, func() error {
		err := s.sign(ctx)
		if err == nil {
			s.tidy(ctx)
		}
		return err
	})
}

// sign says that this process uses the checkpoint.
func (s *Store) sign(ctx context.Context) error {
	return s.append(ctx, kindWriter, 0, []byte(s.cfg.self.Text()))
}
