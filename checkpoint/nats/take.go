// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// take reads the checkpoint and opens the next epoch of it.
func (s *Store) take(ctx context.Context) error {
	r, err := s.log.look(ctx)
	if err != nil {
		return err
	}
	if err := r.admit(s.session.Path, s.session.Want); err != nil { // before anything is done to it
		return err
	}
	if err := s.awaitEnd(ctx, r); err != nil {
		return err
	}
	if err := s.enlist(ctx, r); err != nil {
		return err
	}
	if r, err = s.catchUp(ctx, r); err != nil {
		return err
	}
	if err := r.admit(s.session.Path, s.session.Want); err != nil {
		return err
	}
	s.size.base, s.size.since = r.base, r.since
	if r.oldest < r.first {
		s.size.before = r.first
	}
	s.opened, err = s.log.stateOf(r)
	return err
}

// enlist writes the message with which an epoch begins, behind what r has read, and whatever comes meanwhile of a
// process that does not use the checkpoint any more. The error is a [*checkpoint.HeldError] if it is of another one.
func (s *Store) enlist(ctx context.Context, r *replay) error {
	s.writer = rand.Uint64()
	s.sequence, s.number, s.epoch = r.sequence, r.number, r.epoch+1
	u := r.user
	return again(ctx, s.session.Patience, func() error {
		m := message{
			kind: kindWriter, writer: s.writer, epoch: s.epoch, number: s.number + 1, body: []byte(s.cfg.self.Text()),
		}
		sequence, err := s.log.append(ctx, m.number, s.sequence, m.append(nil))
		if err == nil {
			s.sequence, s.number, s.session.Wrote = sequence, m.number, time.Now()
			return nil
		}
		if !errors.Is(err, errMoved) {
			return err
		}
		last, at, err := s.log.newest(ctx)
		if err != nil {
			return err
		}
		s.sequence, s.number = at, last.number
		if last.writer == s.writer { // it was taken, and the answer lost
			return nil
		}
		if u.take(&last); !s.cfg.Elected && !u.gone() {
			return u.held()
		}
		s.epoch = last.epoch + 1
		return fmt.Errorf("it is written to meanwhile: %w", errMoved)
	})
}
