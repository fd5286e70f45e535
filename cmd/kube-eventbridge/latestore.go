// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	sinkkafka "github.com/kube-eventbridge/kube-eventbridge/sink/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats"
)

// openPatience is short, since who opens a checkpoint at a broker tries again by itself, and says what it waits for.
const openPatience = time.Second

// openStore is a checkpoint that has to be closed.
type openStore interface {
	checkpoint.Store
	io.Closer
}

// lateStoreOf returns the checkpoint of c that open opens. A leader that opens a checkpoint at a broker ends the
// process that uses it: a process that could not publish must not.
func lateStoreOf(c *config.Pipeline, id checkpoint.Identity, open func(context.Context) (openStore, error)) (openStore, error) {
	check, err := sinkCheck(c, id)
	if err != nil {
		return nil, &inputError{err}
	}
	return &lateStore{open: func(ctx context.Context) (openStore, error) {
		var unusable *sink.UnusableError
		if err := check(ctx); errors.As(err, &unusable) {
			return nil, &unusableError{err}
		} else if err != nil {
			return nil, err
		}
		return open(ctx)
	}}, nil
}

// sinkCheck returns what says whether a pipeline could publish. It reads the files of secrets.
func sinkCheck(c *config.Pipeline, id checkpoint.Identity) (func(context.Context) error, error) {
	switch {
	case c.Sink.Kafka != nil:
		to, err := kafkaSinkConfig(c, id)
		to.Log = slog.New(slog.DiscardHandler) // the sink says all of it again
		return func(ctx context.Context) error { _, err := sinkkafka.Check(ctx, to); return err }, err
	case c.Sink.NATS != nil:
		subject, err := subjectOf(c)
		if err != nil {
			return nil, err
		}
		to, err := natsConfig(c.Sink.NATS, subject)
		return func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, askFor)
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
	open func(context.Context) (openStore, error)

	mu     sync.Mutex
	opened openStore
}

func (s *lateStore) store(ctx context.Context) (openStore, error) {
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
