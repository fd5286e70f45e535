// SPDX-License-Identifier: Apache-2.0

// Package session is what the stores have in common that several processes can reach: one operation at a time, until
// the store is closed or another process has it.
package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/holder"
)

// Patience is how long one step of a commit is tried again before its error is returned, and of everything else where
// the configuration does not say.
const Patience = 10 * time.Second

// ErrClosed says that the store is closed.
var ErrClosed = errors.New("the store is closed")

// Session is the use of a checkpoint by this process.
type Session struct {
	// Path is what errors call the checkpoint, and Want whose it is.
	Path string
	Want checkpoint.Identity
	// Patience is that of the operation under way, Insistence that of every commit.
	Patience, Insistence time.Duration
	// Wrote is when this process wrote last.
	Wrote time.Time

	mu sync.Mutex
	// broken is why the checkpoint must not be used any more.
	broken error
}

// New returns a session that is patient while the checkpoint is opened.
func New(path string, want checkpoint.Identity, patience time.Duration) *Session {
	return &Session{Path: path, Want: want, Patience: patience, Insistence: Patience}
}

// Do runs an operation when no other one is under way, unless the checkpoint must not be used any more or ctx has
// ended.
func (s *Session) Do(ctx context.Context, patience time.Duration, operation func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return s.broken
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.Patience = patience
	return operation()
}

// Breaks remembers an error after which what this process knows is not to be trusted any more. It is called by an
// operation.
func (s *Session) Breaks(err error) error {
	s.broken = err
	return err
}

// Commit runs the commit of a batch.
func (s *Session) Commit(ctx context.Context, b *checkpoint.Batch, commit func() error) error {
	if b.Identity != s.Want {
		return &checkpoint.ForeignError{Path: s.Path, Has: s.Want, Want: b.Identity}
	}
	return Named("commit", s.Path, s.Do(ctx, s.Insistence, commit))
}

// Hold runs sign if this process has written nothing for a while.
func (s *Session) Hold(ctx context.Context, sign func() error) error {
	return s.Do(ctx, holder.Every, func() error {
		if time.Since(s.Wrote) < holder.Every {
			return nil
		}
		return sign()
	})
}

// Close runs leave, which tells the next process that the checkpoint is free, and then end. That is an attempt: who
// waits finds out. A session may be closed twice.
func (s *Session) Close(leave func(context.Context) error, end func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(s.broken, ErrClosed) {
		return nil
	}
	if s.broken == nil {
		ctx, cancel := context.WithTimeout(context.Background(), holder.Farewell)
		defer cancel()
		s.Patience = 0
		_ = leave(ctx)
	}
	s.broken = ErrClosed
	end()
	return nil
}

// Named says what failed of which checkpoint, unless the error does so by itself.
func Named(verb, path string, err error) error {
	if err == nil || checkpoint.IsPermanent(err) {
		return err
	}
	return fmt.Errorf("%s checkpoint %s: %w", verb, path, err)
}
