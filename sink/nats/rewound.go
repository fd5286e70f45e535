// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// mark is a message in the stream.
type mark struct {
	sequence uint64
	id       string
}

// doubtFor is how long a replica that was left behind may answer for the stream: longer than it takes to notice that it
// leads nobody.
const doubtFor = 15 * time.Second

var errLeftBehind = errors.New("perhaps a replica that was left behind")

// acknowledge remembers the furthest message that the stream has promised to have. The lock on answering is held.
func (s *Sink) acknowledge(m mark, duplicate bool) {
	switch {
	case m.sequence > s.acked.sequence:
		s.acked = m
	case !duplicate && m.sequence <= s.acked.sequence:
		s.look() // sequences only ever grow in one log
	}
}

// acknowledged returns the furthest message that was acknowledged until now, on any connection. Answers that come later
// are for what the stream has by then.
func (s *Sink) acknowledged() mark {
	s.answering.Lock()
	defer s.answering.Unlock()
	return s.acked
}

// promise remembers that somebody was told of what a stream has, and reports whether it is the one that is published
// to.
func (s *Sink) promise(born time.Time, last uint64) (same bool) {
	s.answering.Lock()
	defer s.answering.Unlock()
	if s.acked.sequence == 0 {
		s.born = born
	}
	same = s.born.Equal(born)
	if same && last > s.acked.sequence {
		s.acked = mark{sequence: last}
	}
	return same
}

// sameStream reports whether a stream that was created at born is the one that has what was acknowledged. While nothing
// was, any is.
func (s *Sink) sameStream(born time.Time) (acked mark, same bool) {
	s.answering.Lock()
	defer s.answering.Unlock()
	if s.acked.sequence == 0 {
		s.born = born
	}
	return s.acked, s.born.Equal(born)
}

// unbroken checks that a stream whose last sequence is last still has what it acknowledged before it was asked for
// that.
func (s *Sink) unbroken(ctx context.Context, acked mark, last uint64) error {
	if acked.sequence == 0 {
		return nil
	}
	if last < acked.sequence {
		return s.rewound(acked, last)
	}
	m, err := s.get(ctx, map[string]any{"seq": acked.sequence})
	if err != nil {
		return fmt.Errorf("look at message %d of stream %s, which was acknowledged: %w", acked.sequence, s.cfg.Stream, err)
	}
	if m != nil && acked.id != "" && m.ID != acked.id {
		return s.rewoundError(acked, last)
	}
	return nil
}

// rewound deals with a stream that ends before what it acknowledged, or is another one. One server's word is enough
// only where there is but one that has the stream.
func (s *Sink) rewound(acked mark, last uint64) error {
	if s.replicas > 1 {
		if s.doubted.IsZero() {
			s.doubted = time.Now()
		}
		if time.Since(s.doubted) < s.patience {
			return fmt.Errorf("stream %s ends at %d or is another one, and %d was acknowledged: %w", s.cfg.Stream, last,
				acked.sequence, errLeftBehind)
		}
	}
	return s.rewoundError(acked, last)
}

func (s *Sink) rewoundError(acked mark, last uint64) error {
	return &sink.RewoundError{Target: "stream " + s.cfg.Stream, Acknowledged: acked.sequence, Last: last}
}
