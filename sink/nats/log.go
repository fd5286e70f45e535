// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

var _ sink.Log = (*Sink)(nil)

// Bounds implements [sink.Log]: the stream is partition 0. Once Run has ended the error is [sink.ErrNotRunning].
func (s *Sink) Bounds(ctx context.Context) (map[int32]sink.Bounds, error) {
	var bounds sink.Bounds
	err := s.insist(ctx, func(ctx context.Context) (bool, error) {
		js, err := s.jetstream(s.conn.Load())
		if err != nil {
			return false, err
		}
		ctx, cancel := s.request(ctx)
		defer cancel()
		st, err := js.Stream(ctx, s.cfg.Stream)
		if err != nil {
			return false, s.unanswered(ctx, err)
		}
		state := st.CachedInfo().State
		bounds = sink.Bounds{First: state.FirstSeq, Last: state.LastSeq}
		if state.Msgs == 0 {
			bounds.First = state.LastSeq + 1
		}
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("bounds of stream %s: %w", s.cfg.Stream, err)
	}
	return map[int32]sink.Bounds{0: bounds}, nil
}

// Read implements [sink.Log]. With LastOfKey a message that was published while Read runs may be among the last ones. Once Run has ended
// the error is [sink.ErrNotRunning].
func (s *Sink) Read(ctx context.Context, q sink.Query, f func(*sink.Stored) error) error {
	r := &reader{sink: s, q: q, f: f, seen: q.After[0], data: q.Data, subjects: filters(s.cfg.Subjects)}
	err := s.insist(ctx, r.read)
	var stopped *stoppedError
	if errors.As(err, &stopped) {
		return stopped.err
	}
	if err != nil {
		return fmt.Errorf("read stream %s: %w", s.cfg.Stream, err)
	}
	return nil
}

// stoppedError says that the caller's function wants no more.
type stoppedError struct{ err error }

func (e *stoppedError) Error() string { return e.err.Error() }

// insist calls attempt while the broker is usable until it succeeds, with pauses that grow unless attempt reports progress. It fails when ctx
// or Run ends, or with a stoppedError.
func (s *Sink) insist(ctx context.Context, attempt func(context.Context) (progress bool, err error)) error {
	for n := 1; ; n++ {
		if err := s.await(ctx); err != nil {
			return err
		}
		progress, err := attempt(ctx)
		var stopped *stoppedError
		switch {
		case err == nil, errors.As(err, &stopped):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case progress:
			n = 1
		}
		if !errors.Is(err, errDisconnected) {
			s.warn(err)
			s.look()
		}
		if pause.For(ctx, s.backoff(n)) != nil {
			return ctx.Err()
		}
	}
}

// await returns when the stream was checked and can be asked.
func (s *Sink) await(ctx context.Context) error {
	for {
		s.mu.Lock()
		up := s.becameUp
		s.mu.Unlock()
		if s.Ready() == nil {
			return nil
		}
		select {
		case <-up:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.over:
			return sink.ErrNotRunning
		}
	}
}

// filters returns what a consumer can be asked for to see all of subjects: it takes no two that have something in common. Where they
// have, without one being the whole of the other, it is everything.
func filters(subjects []string) (some []string) {
	for i, a := range subjects {
		if coveredByAny(some, a) || coveredByAny(subjects[i+1:], a) {
			continue
		}
		if slices.ContainsFunc(some, func(b string) bool { return overlap(a, b) }) {
			return []string{">"}
		}
		some = append(some, a)
	}
	return some
}
