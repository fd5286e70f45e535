// SPDX-License-Identifier: Apache-2.0

package natslog

import (
	"context"
	"errors"
	"fmt"
	"time"

	gonats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
)

// reader is one reading of a stream.
type reader struct {
	*Log
	event.Reading

	// next is the sequence to read next; 0 while it is not known.
	next uint64
	// given is the sequence behind the last one that Each took; 0 before there is one.
	given uint64
	// whole is where reading the subjects of Config.Whole goes on.
	whole uint64
	// created is when the stream that these belong to was created.
	created time.Time
	// missing says that the stream was seen not to exist.
	missing bool
	// end is where the log ended at the start, without Follow.
	end uint64
	// goal is the sequence with which the reading has caught up, where aimed says that it is known; caughtUp says that
	// the caller was told so, void that there was no stream then.
	goal                  uint64
	aimed, caughtUp, void bool
	// waiting is the last notice about an interruption, empty while all is well.
	waiting string
	// begun says that messages were asked for, and the broker agreed.
	begun bool
}

// errDone ends the reading: everything asked for has been read.
var errDone = errors.New("done")

// run reads until ctx ends, the reading is done, Each fails, or it can never succeed.
func (r *reader) run(ctx context.Context) error {
	for {
		var refused *refusedError
		err := r.session(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errDone):
			r.catchUp()
			return nil
		case errors.Is(err, errUntil):
			continue
		case errors.As(err, &refused):
			return refused.err
		case r.nc.IsClosed():
			return fmt.Errorf("connection to %s closed: %w", r.servers(), natsclient.Explain(orElse(r.nc.LastError(), err)))
		case errors.Is(err, jetstream.ErrInvalidStreamName):
			return fmt.Errorf("stream %q: %w", r.cfg.Stream, err)
		case errors.Is(err, jetstream.ErrStreamNotFound) && !r.Follow:
			return fmt.Errorf("there is no stream %q at %s; name another one with --stream, or follow until it exists",
				r.cfg.Stream, r.servers())
		case r.hopeless(err):
			return fmt.Errorf("read stream %s at %s: %w", r.cfg.Stream, r.servers(), answered(err))
		}
		r.interrupted(err)
		if errors.Is(err, jetstream.ErrStreamNotFound) && r.CaughtUp != nil && !r.caughtUp {
			r.void = true
			r.catchUp()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(r.cfg.Pause):
		}
	}
}

// hopeless reports whether another attempt would end as this one did, or no caller wants to wait for what it ends as.
// What interrupts a reading that had begun, such as a restart of the broker, passes.
func (r *reader) hopeless(err error) bool {
	return errors.Is(err, jetstream.ErrOverlappingFilterSubjects) || !r.Follow && !r.begun && r.nc.IsConnected() &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, gonats.ErrConnectionReconnecting)
}

func orElse(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// session reads until it is interrupted or done, and returns why.
func (r *reader) session(ctx context.Context) error {
	if !r.nc.IsConnected() {
		return gonats.ErrConnectionReconnecting
	}
	follow := r.Follow && (r.Until.IsZero() || time.Now().Before(r.Until))
	if follow && !r.Until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, r.Until)
		defer cancel()
	}
	state, err := r.open(ctx)
	if err != nil {
		return err
	}
	if err := r.begin(ctx, state); err != nil {
		return err
	}
	if r.Start.Newest && r.next == 0 {
		err = r.readNewest(ctx, state.FirstSeq, follow)
	} else {
		err = r.readOn(ctx, state, follow)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errUntil
	}
	return err
}

// readOn reads from where reading is to go on, or from a time.
func (r *reader) readOn(ctx context.Context, state jetstream.StreamState, follow bool) error {
	if !follow && r.end == 0 {
		r.end = state.LastSeq
	}
	if !follow && (r.next > r.end || state.Msgs == 0) {
		return errDone
	}
	if !r.aimed {
		r.goal, r.aimed = state.LastSeq, true
	}
	if r.next > r.goal || state.Msgs == 0 {
		r.catchUp()
	}
	s := &stretch{consumer: r.consumer()}
	switch {
	case !follow:
		s.all = func() error { return errDone }
	case r.CaughtUp != nil && !r.caughtUp:
		s.all = func() error { r.catchUp(); return nil }
		s.surely, s.after = r.next != 0, max(r.next, 1)-1
	}
	s.do = func(m event.Message) error {
		if !follow && m.Sequence > r.end {
			return errDone
		}
		if err := r.give(ctx, m); err != nil {
			return err
		}
		r.next = r.given
		if m.Sequence >= r.goal {
			r.catchUp()
		}
		return nil
	}
	return r.read(ctx, s)
}

// give hands a message over.
func (r *reader) give(ctx context.Context, m event.Message) error {
	if !r.Until.IsZero() && !m.Time.Before(r.Until) {
		return errDone
	}
	if err := r.Each(ctx, m); err != nil {
		return &refusedError{err}
	}
	r.given = m.Sequence + 1
	return nil
}

// catchUp tells once that all was given that the log had.
func (r *reader) catchUp() {
	if !r.caughtUp && r.CaughtUp != nil {
		r.CaughtUp()
	}
	r.caughtUp = true
}

// errUntil says that the time until which the log is followed has come; what was stored before it may be unread.
var errUntil = errors.New("until")

// refusedError is an error of whoever is given the messages.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// open looks at the stream, and notices when it is another one than before, or has lost what was not read.
func (r *reader) open(ctx context.Context) (jetstream.StreamState, error) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	stream, err := r.js.Stream(ctx, r.cfg.Stream)
	if err != nil {
		return jetstream.StreamState{}, err
	}
	info := stream.CachedInfo()
	r.direct.Store(info.Config.AllowDirect)
	switch known := max(r.next, r.given, r.whole); {
	case known != 0 && (!info.Created.Equal(r.created) || info.State.LastSeq+1 < known):
		r.cfg.Notice(fmt.Sprintf("stream %q was replaced by a new one, reading it from its beginning", r.cfg.Stream))
		r.restart()
	case r.void:
		r.restart()
	case r.next != 0 && info.State.FirstSeq > r.next:
		r.cfg.Notice(fmt.Sprintf("messages %d to %d were removed from stream %q before they were read",
			r.next, info.State.FirstSeq-1, r.cfg.Stream))
		r.next = info.State.FirstSeq
	}
	r.created = info.Created
	return info.State, nil
}

// restart lets all of the stream be read, because it is not the one that was read so far.
func (r *reader) restart() {
	r.next, r.end, r.given, r.whole = 1, 0, 0, 0
	if r.Start.Newest {
		r.next = 0
	}
	r.aimed, r.caughtUp, r.void = false, false, false
	r.Replaced()
}

// begin finds out where to begin, unless it is known. A Start at a time or with the newest is left to the
// server.
func (r *reader) begin(ctx context.Context, state jetstream.StreamState) error {
	start := r.Start
	switch {
	case r.next != 0:
	case start.Last > 0:
		next, err := r.lastFrom(ctx, start.Last, state)
		if err != nil {
			return err
		}
		r.next = next
	case !start.Time.IsZero(), start.Newest:
	case start.Beginning || r.missing:
		r.next = max(state.FirstSeq, 1)
	default:
		r.next = state.LastSeq + 1
	}
	return nil
}

// lastFrom returns the sequence of the n-th last message that Counts reports: it reads ever longer ends of the log.
func (r *reader) lastFrom(ctx context.Context, n int, state jetstream.StreamState) (uint64, error) {
	first, last := max(state.FirstSeq, 1), state.LastSeq
	for window := uint64(n); ; window *= 4 {
		from := first
		if last-first >= window {
			from = last - window + 1
		}
		var found []uint64
		err := r.read(ctx, &stretch{
			consumer: r.consumerFrom(from, r.cfg.Subjects),
			all:      func() error { return errDone },
			do: func(m event.Message) error {
				switch {
				case m.Sequence > last:
					return errDone
				case r.Counts(m):
					found = append(found, m.Sequence)
				}
				return nil
			},
		})
		switch {
		case last < first:
			return first, nil
		case !errors.Is(err, errDone):
			return 0, err
		case len(found) >= n:
			return found[len(found)-n], nil
		case from == first:
			return first, nil
		}
	}
}
