// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

// keptAfter is how large a buffer may be to be used again.
const keptAfter = 4 << 20

// errLate says that what was sent before, and had no answer, was taken meanwhile.
var errLate = errors.New("an earlier message was taken")

// write writes records as one commit, in as many messages as it takes.
func (s *Store) write(ctx context.Context, kind byte, records []byte) error {
	parts := uint64(0)
	for len(records) > s.room {
		if err := s.append(ctx, kindPart, parts, records[:s.room]); err != nil {
			return err
		}
		parts, records = parts+1, records[s.room:]
	}
	return s.append(ctx, kind, parts, records)
}

// append writes the next message.
func (s *Store) append(ctx context.Context, kind byte, parts uint64, body []byte) error {
	for {
		m := message{kind: kind, writer: s.writer, epoch: s.epoch, number: s.number + 1, parts: parts, body: body}
		s.message = m.append(s.message[:0])
		err := again(ctx, s.session.Patience, func() error { return s.offer(ctx, m.number) })
		switch {
		case errors.Is(err, errLate):
			continue
		case err == nil:
			s.unsure = false
			s.size.since += cost(&m)
			return nil
		case errors.Is(err, errNoBucket):
			return s.session.Breaks(&LostError{Path: s.session.Path, Want: s.sequence})
		}
		if lost := (*LostError)(nil); errors.As(err, &lost) {
			return s.session.Breaks(lost)
		}
		s.unsure = true
		return err
	}
}

// offer sends the message that was made last.
func (s *Store) offer(ctx context.Context, number uint64) error {
	sequence, err := s.log.append(ctx, number, s.sequence, s.message)
	switch {
	case err == nil:
		s.sequence, s.number, s.session.Wrote = sequence, number, time.Now()
		return nil
	case errors.Is(err, errMoved):
		return s.reconcile(ctx, err)
	default:
		return err
	}
}

// reconcile says what it means that the last message is not the one that this store knows of.
func (s *Store) reconcile(ctx context.Context, refused error) error {
	found, err := s.log.last(ctx)
	if err != nil {
		return err
	}
	if found.sequence < s.sequence {
		return &LostError{Path: s.session.Path, Has: found.sequence, Want: s.sequence}
	}
	if found.sequence == s.sequence { // of which a replica that has taken over did not know yet
		return refused
	}
	last, _, err := s.log.decoded(found)
	switch {
	case err != nil:
		return s.session.Breaks(err)
	case last.writer != s.writer && last.epoch > s.epoch:
		return s.session.Breaks(&checkpoint.TakenError{Path: s.session.Path, Err: fmt.Errorf("epoch %d", last.epoch)})
	case last.writer != s.writer:
		return s.session.Breaks(damaged(s.session.Path, fmt.Errorf("message %d is of epoch %d, and this is epoch %d",
			last.number, last.epoch, s.epoch)))
	}
	s.sequence, s.number = found.sequence, last.number
	if !bytes.Equal(found.data, s.message) {
		return errLate
	}
	return nil
}
