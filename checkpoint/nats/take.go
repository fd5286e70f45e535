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
	r, err := s.look(ctx)
	if err != nil {
		return err
	}
	if err := r.admit(s.path, s.want); err != nil { // before anything is done to it
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
	if err := r.admit(s.path, s.want); err != nil {
		return err
	}
	s.base, s.since = r.base, r.since
	if r.oldest < r.first {
		s.before = r.first
	}
	s.opened, err = s.stateOf(r)
	return err
}

// enlist writes the message with which an epoch begins, behind what r has read, and whatever comes meanwhile of a
// process that does not use the checkpoint any more. The error is a [*checkpoint.HeldError] if it is of another one.
func (s *Store) enlist(ctx context.Context, r *replay) error {
	s.writer = rand.Uint64()
	s.sequence, s.number, s.epoch = r.sequence, r.number, r.epoch+1
	u := r.user
	return again(ctx, s.patience, func() error {
		m := message{
			kind: kindWriter, writer: s.writer, epoch: s.epoch, number: s.number + 1, body: []byte(s.cfg.self.Text()),
		}
		sequence, err := s.log.append(ctx, m.number, s.sequence, m.append(nil))
		if err == nil {
			s.sequence, s.number, s.wrote = sequence, m.number, time.Now()
			return nil
		}
		if !errors.Is(err, errMoved) {
			return err
		}
		last, at, err := s.last(ctx)
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

// last returns the newest message and its sequence, zero where there is none.
func (s *Store) last(ctx context.Context) (m message, sequence uint64, err error) {
	found, err := s.log.last(ctx)
	if err != nil || found.sequence == 0 {
		return m, 0, err
	}
	return s.decoded(found)
}

func (s *Store) decoded(found raw) (m message, sequence uint64, err error) {
	if m, err = decodeMessage(found.data); err != nil {
		r := newReplay()
		r.skip(found.sequence, err)
		return m, found.sequence, r.damage(s.path)
	}
	return m, found.sequence, nil
}
