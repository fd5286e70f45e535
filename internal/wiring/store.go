// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/file"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	sinkkafka "github.com/kube-eventbridge/kube-eventbridge/sink/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats"
)

// AskFor bounds how long one broker may take to say what it has.
const AskFor = 20 * time.Second

// openPatience is short, since who opens a checkpoint at a broker tries again by itself, and says what it waits for.
const openPatience = time.Second

// Store is a checkpoint that has to be closed.
type Store interface {
	checkpoint.Store
	io.Closer
}

// Store opens the checkpoint of a pipeline of a configuration.
func (w *Wiring) Store(cfg *config.Config, c *config.Pipeline, id checkpoint.Identity) (Store, error) {
	switch {
	case c.Checkpoint.Kafka != nil:
		return w.kafkaStore(c, id)
	case c.Checkpoint.NATS != nil:
		return w.natsStore(c, id)
	}
	path, err := cfg.CheckpointPath(c)
	if err != nil {
		return nil, err
	}
	s, err := file.Open(filepath.Clean(path), id)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// lateStoreOf returns the checkpoint of c that open opens. A leader that opens a checkpoint at a broker ends the
// process that uses it: a process that could not publish must not.
func lateStoreOf(c *config.Pipeline, id checkpoint.Identity, open func(context.Context) (Store, error)) (Store, error) {
	check, err := CheckSink(c, id)
	if err != nil {
		return nil, &exit.InputError{Err: err}
	}
	return &lateStore{open: func(ctx context.Context) (Store, error) {
		var unusable *sink.UnusableError
		if err := check(ctx); errors.As(err, &unusable) {
			return nil, &unusableError{err}
		} else if err != nil {
			return nil, err
		}
		return open(ctx)
	}}, nil
}

// CheckSink returns what says whether a pipeline could publish. It reads the files of secrets.
func CheckSink(c *config.Pipeline, id checkpoint.Identity) (func(context.Context) error, error) {
	switch {
	case c.Sink.Kafka != nil:
		to, err := KafkaSink(c, id)
		to.Log = slog.New(slog.DiscardHandler) // the sink says all of it again
		return func(ctx context.Context) error { _, err := sinkkafka.Check(ctx, to); return err }, err
	case c.Sink.NATS != nil:
		subject, err := SubjectOf(c)
		if err != nil {
			return nil, err
		}
		to, err := NATSSink(c.Sink.NATS, subject)
		return func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, AskFor)
			defer cancel()
			_, err := nats.Check(ctx, to)
			return err
		}, err
	default:
		return func(context.Context) error { return nil }, nil
	}
}

// unusableError is of a pipeline that cannot publish, however often it tries.
type unusableError struct{ error }

// Permanent implements what [checkpoint.IsPermanent] asks for.
func (*unusableError) Permanent() bool { return true }

// Unwrap returns why.
func (e *unusableError) Unwrap() error { return e.error }

// lateStore opens a checkpoint when it is first used; where that fails, with the next use.
type lateStore struct {
	open func(context.Context) (Store, error)

	mu     sync.Mutex
	opened Store
}

func (s *lateStore) store(ctx context.Context) (Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened == nil {
		opened, err := s.open(ctx)
		if err != nil {
			return nil, err
		}
		s.opened = opened
	}
	return s.opened, nil
}

// Load implements [checkpoint.Store].
func (s *lateStore) Load(ctx context.Context) (*checkpoint.State, error) {
	store, err := s.store(ctx)
	if err != nil {
		return nil, err
	}
	return store.Load(ctx)
}

// Commit implements [checkpoint.Store].
func (s *lateStore) Commit(ctx context.Context, b *checkpoint.Batch) error {
	store, err := s.store(ctx)
	if err != nil {
		return err
	}
	return store.Commit(ctx, b)
}

// Hold implements [checkpoint.Holder]. A file is held by its lock.
func (s *lateStore) Hold(ctx context.Context) error {
	s.mu.Lock()
	held, shared := s.opened.(checkpoint.Holder)
	s.mu.Unlock()
	if !shared {
		return nil
	}
	return held.Hold(ctx)
}

// Close closes what was opened.
func (s *lateStore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened == nil {
		return nil
	}
	return s.opened.Close()
}
