// SPDX-License-Identifier: Apache-2.0

// Package stdout writes messages as JSON Lines, one CloudEvent in structured form a line, or as whatever it is told to
// make of them.
//
// Order is the order of the calls of Publish, and each message is written once: a write that fails is continued where
// it stopped. There is nothing to recognise or check an earlier message by: a message published twice is there twice,
// and Verify is ignored.
package stdout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

const (
	// maxBuffer is how many bytes wait at most, one message always may.
	maxBuffer = 1 << 20
	minWait   = 250 * time.Millisecond
	maxWait   = 10 * time.Second
)

// Sink is a [sink.Sink] on an [io.Writer]. A receipt's sequence is the number of the line, counted from 1 since the
// sink was made.
type Sink struct {
	w       io.Writer
	format  Format
	log     *slog.Logger
	running atomic.Bool
	filled  chan struct{}

	mu     sync.Mutex
	down   error
	next   buffer        // lines that wait
	spare  buffer        // memory to use again
	room   chan struct{} // closed when next was taken away
	number uint64        // of the last line
}

// buffer is a number of lines and who waits for them.
type buffer struct {
	bytes []byte
	lines []line
}

type line struct {
	end    int // offset behind the line
	number uint64
	done   sink.Done
}

// Format appends what is written of a message, with the end of its line, to b; number is that of its receipt. It keeps
// nothing of the message's data. An error is a permanent failure of the message. A Format is called by one goroutine at
// a time for each sink.
type Format func(b []byte, m *sink.Message, number uint64) ([]byte, error)

// JSONLines is the Format of JSON Lines.
func JSONLines(b []byte, m *sink.Message, _ uint64) ([]byte, error) {
	b, err := appendEvent(b, m)
	return append(b, '\n'), err
}

// New returns a sink on w; a nil format is [JSONLines]. A write that fails is tried again until Run is to end. If the
// reader has ended (EPIPE, a closed file), Run ends with a [*sink.UnusableError]. A nil logger means none.
func New(w io.Writer, format Format, log *slog.Logger) *Sink {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if format == nil {
		format = JSONLines
	}
	return &Sink{
		w: w, format: format, log: log, filled: make(chan struct{}, 1), down: sink.ErrNotRunning,
		room: make(chan struct{}),
	}
}

// Publish implements [sink.Publisher]. A message whose data is no JSON although it says so is a permanent failure where
// that shows.
func (s *Sink) Publish(ctx context.Context, m *sink.Message, done sink.Done) {
	if err := s.add(ctx, m, done); err != nil {
		done(sink.Receipt{}, fmt.Errorf("publish %s: %w", m.Subject, err))
		return
	}
	select {
	case s.filled <- struct{}{}:
	default:
	}
}

// add appends m to what is to be written, when there is room.
func (s *Sink) add(ctx context.Context, m *sink.Message, done sink.Done) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.next.bytes) >= maxBuffer && !s.ended() {
		room := s.room
		s.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
		}
		s.mu.Lock()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if s.ended() {
		return s.down
	}
	b, err := s.format(s.next.bytes, m, s.number+1)
	if err != nil {
		return sink.Permanent(err)
	}
	s.number++
	s.next.bytes = b
	s.next.lines = append(s.next.lines, line{len(s.next.bytes), s.number, done})
	return nil
}

// ended reports whether nothing will be written. s.mu is held.
func (s *Sink) ended() bool { return !s.running.Load() }

// Run implements [sink.Sink]. It writes what there is as soon as the last write has returned. A write that blocks is
// interrupted when ctx ends if the writer has SetWriteDeadline and supports it, and otherwise delays the end.
func (s *Sink) Run(ctx context.Context) error {
	if !s.running.CompareAndSwap(false, true) {
		return errors.New("stdout: Run was called a second time")
	}
	s.setDown(nil)
	stop := context.AfterFunc(ctx, s.interrupt)
	defer stop()
	for {
		b := s.take()
		if len(b.lines) == 0 {
			select {
			case <-ctx.Done():
				s.end(b, ctx.Err())
				return nil
			case <-s.filled:
				continue
			}
		}
		if err := s.write(ctx, &b); err != nil {
			stopped := ctx.Err() != nil // before end, which may have ctx cancelled
			s.end(b, err)
			if stopped {
				return nil
			}
			return err
		}
		s.mu.Lock()
		s.spare = b
		s.mu.Unlock()
	}
}

// take takes what is to be written.
func (s *Sink) take() buffer {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.next
	s.next = buffer{s.spare.bytes[:0], s.spare.lines[:0]}
	s.spare = buffer{}
	close(s.room)
	s.room = make(chan struct{})
	return b
}

// write writes b and tells those who wait, as the lines are out. What is left in b has not been told.
func (s *Sink) write(ctx context.Context, b *buffer) error {
	written := 0
	for wait := minWait; ; wait = min(2*wait, maxWait) {
		n, err := s.w.Write(b.bytes[written:])
		written += n
		told := 0
		for _, l := range b.lines {
			if l.end > written {
				break
			}
			told++
			l.done(sink.Receipt{Sequence: l.number}, nil)
		}
		b.lines = b.lines[:copy(b.lines, b.lines[told:])]
		if err == nil && len(b.lines) > 0 {
			err = io.ErrShortWrite
		}
		switch {
		case err == nil:
			s.setDown(nil)
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, syscall.EPIPE), errors.Is(err, os.ErrClosed), errors.Is(err, io.ErrClosedPipe):
			return &sink.UnusableError{
				Target: "standard output", Reason: "its reader is gone (" + err.Error() + ")",
				Advice: "keep its reader running",
				Cause:  err,
			}
		case n > 0:
			wait = minWait / 2
		}
		s.setDown(fmt.Errorf("write: %w", err))
		s.log.Warn("output cannot be written", "err", err, "retry", wait)
		if pause.For(ctx, wait) != nil {
			return ctx.Err()
		}
	}
}

// end tells everybody who waits that nothing more will be written.
func (s *Sink) end(b buffer, err error) {
	s.mu.Lock()
	s.running.Store(false)
	s.down = sink.ErrNotRunning
	left := append(b.lines, s.next.lines...)
	s.next = buffer{}
	close(s.room)
	s.room = make(chan struct{})
	s.mu.Unlock()
	for _, l := range left {
		l.done(sink.Receipt{}, err)
	}
}

func (s *Sink) interrupt() {
	if d, ok := s.w.(interface{ SetWriteDeadline(time.Time) error }); ok {
		_ = d.SetWriteDeadline(time.Now()) // not every file can: then the write ends by itself
	}
}

func (s *Sink) setDown(err error) {
	s.mu.Lock()
	s.down = err
	s.mu.Unlock()
}

// Ready implements [sink.Sink].
func (s *Sink) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down
}
