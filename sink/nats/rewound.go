// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// mark is a message in the stream.
type mark struct {
	sequence uint64
	id       string
}

// doubtFor is how long a replica that was left behind may answer for the stream: longer than it takes to notice that it
// has no followers.
const doubtFor = 15 * time.Second

var errLeftBehind = errors.New("perhaps a replica that was left behind")

// acknowledged is what no server may take back.
type acknowledged struct {
	mu sync.Mutex
	// furthest is the furthest message that was acknowledged, on any connection, or that Bounds told of. born is when the
	// stream that has it was created.
	furthest mark
	born     time.Time
}

// add remembers a message that the stream has promised to have, and reports whether its place is one that it can have.
func (a *acknowledged) add(m mark, duplicate bool) (plausible bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if m.sequence > a.furthest.sequence {
		a.furthest = m
		return true
	}
	return duplicate
}

// until returns the furthest message until now. Answers that come later are for what the stream has by then.
func (a *acknowledged) until() mark {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.furthest
}

// promise remembers that somebody was told of what a stream has, and reports whether it is the one that is published
// to.
func (a *acknowledged) promise(born time.Time, last uint64) (same bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	same = a.isOf(born)
	if same && last > a.furthest.sequence {
		a.furthest = mark{sequence: last}
	}
	return same
}

// of returns the furthest message, and reports whether a stream that was created at born is the one that has it.
func (a *acknowledged) of(born time.Time) (furthest mark, same bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.furthest, a.isOf(born)
}

// isOf reports whether a stream that was created at born is the one that has what was acknowledged. While nothing was,
// any is. The caller holds mu.
func (a *acknowledged) isOf(born time.Time) bool {
	if a.furthest.sequence == 0 {
		a.born = born
	}
	return a.born.Equal(born)
}

// unbroken checks that a stream whose last sequence is last still has what it acknowledged before it was asked for
// that.
func (s *stream) unbroken(ctx context.Context, acked mark, last uint64) error {
	if acked.sequence == 0 {
		return nil
	}
	if last < acked.sequence {
		return s.rewound(acked, last)
	}
	m, err := s.broker.get(ctx, map[string]any{"seq": acked.sequence})
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
func (s *stream) rewound(acked mark, last uint64) error {
	if found := s.seen.Load(); found != nil && found.Replicas > 1 {
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

func (s *stream) rewoundError(acked mark, last uint64) error {
	return &sink.RewoundError{Target: "stream " + s.cfg.Stream, Acknowledged: acked.sequence, Last: last}
}
