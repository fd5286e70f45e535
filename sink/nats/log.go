// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

var _ sink.Log = (*Sink)(nil)

// Bounds implements [sink.Log]: the stream is partition 0, and its time of creation the ID. What it has then must not
// be lost any more while Run runs, as if this run had published it. Once Run has ended the error is
// [sink.ErrNotRunning].
func (s *Sink) Bounds(ctx context.Context, expected map[int32]uint64) (sink.LogBounds, error) {
	var bounds sink.LogBounds
	var doubted time.Time
	err := s.insist(ctx, func(ctx context.Context) (bool, error) {
		info, err := s.broker.info(ctx)
		if err != nil {
			return false, err
		}
		state := info.State
		if state.LastSeq < expected[0] && info.Config.Replicas > 1 {
			if doubted.IsZero() {
				doubted = time.Now()
			}
			if time.Since(doubted) < s.stream.patience {
				return false, fmt.Errorf("it ends at %d, and is expected to end at %d: %w", state.LastSeq, expected[0],
					errLeftBehind)
			}
		}
		if !s.stream.acked.promise(info.Created, state.LastSeq) {
			s.state.look()
		}
		bounds = boundsOf(info)
		return true, nil
	})
	if err != nil {
		return sink.LogBounds{}, fmt.Errorf("bounds of stream %s: %w", s.cfg.Stream, err)
	}
	return bounds, nil
}

func boundsOf(info *jetstream.StreamInfo) sink.LogBounds {
	b := sink.Bounds{First: info.State.FirstSeq, Last: info.State.LastSeq}
	if info.State.Msgs == 0 {
		b.First = b.Last + 1
	}
	return sink.LogBounds{
		ID: info.Created.UTC().Format(time.RFC3339Nano), Partitions: map[int32]sink.Bounds{0: b},
		Indexed: true,
	}
}

// At implements [sink.Log]. A structured message has its data. Once Run has ended the error is [sink.ErrNotRunning].
func (s *Sink) At(ctx context.Context, partition int32, sequence uint64) (found *sink.Stored, err error) {
	if partition != 0 || sequence == 0 {
		return nil, nil
	}
	err = s.insist(ctx, func(ctx context.Context) (_ bool, err error) {
		found, err = s.broker.get(ctx, map[string]any{"seq": sequence})
		return err == nil, err
	})
	if err != nil {
		return nil, fmt.Errorf("message %d of stream %s: %w", sequence, s.cfg.Stream, err)
	}
	if found != nil && !strings.HasPrefix(found.ContentType, structured) {
		found.Data = nil
	}
	return found, nil
}

// Read implements [sink.Log]. With LastOfKey a message that was published while Read runs may be among the last ones.
// Once Run has ended the error is [sink.ErrNotRunning]. The stream's limits may allow no consumer, which Read needs: if
// they do not for a while the error is a [*sink.UnusableError].
func (s *Sink) Read(ctx context.Context, q sink.Query, f func(*sink.Stored) error) error {
	r := &reader{sink: s, q: q, f: f, seen: q.After[0], data: q.Data, subjects: q.Subjects}
	if len(r.subjects) == 0 {
		r.subjects = filters(s.cfg.Subjects)
	}
	err := s.insist(ctx, r.read)
	var stopped *stoppedError
	var unusable *sink.UnusableError
	switch {
	case errors.As(err, &stopped):
		return stopped.err
	case errors.As(err, &unusable):
		return unusable
	case err != nil:
		return fmt.Errorf("read stream %s: %w", s.cfg.Stream, err)
	}
	return nil
}

// stoppedError says that the caller's function wants no more.
type stoppedError struct{ err error }

func (e *stoppedError) Error() string { return e.err.Error() }

// insist calls attempt while the broker is usable until it succeeds, with pauses that grow unless attempt reports
// progress; meanwhile Ready says why. It fails when ctx or Run ends, with a stoppedError, or with what is final.
func (s *Sink) insist(ctx context.Context, attempt func(context.Context) (progress bool, err error)) error {
	defer s.deaf.Store(nil)
	for n := 1; ; n++ {
		if err := s.state.await(ctx); err != nil {
			return err
		}
		progress, err := attempt(ctx)
		var stopped *stoppedError
		switch {
		case err == nil, errors.As(err, &stopped), final(err):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case progress:
			n = 1
			s.deaf.Store(nil)
		case !errors.Is(err, errDisconnected):
			s.deaf.Store(&err)
		}
		if !errors.Is(err, errDisconnected) {
			s.warn(err)
			s.state.look()
		}
		if pause.For(ctx, s.cfg.backoff(n)) != nil {
			return ctx.Err()
		}
	}
}

// filters returns what a consumer can be asked for to see all of subjects: it takes no two that have something in
// common. Where they have, without one being the whole of the other, it is everything.
func filters(subjects []string) (some []string) {
	for i, a := range subjects {
		if natsclient.CoveredByAny(some, a) || natsclient.CoveredByAny(subjects[i+1:], a) {
			continue
		}
		if slices.ContainsFunc(some, func(b string) bool { return natsclient.Overlap(a, b) }) {
			return []string{">"}
		}
		some = append(some, a)
	}
	return some
}
