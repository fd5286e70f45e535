// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
)

// Found is what a topic has of a checkpoint.
type Found struct {
	State *checkpoint.State
	// Commits counts those that were ever made.
	Commits uint64
	// Saved is when the last one was made; zero where there was none.
	Saved time.Time
}

// Inspect returns what the topic has of the checkpoint of a cluster and a pipeline, whatever the cluster's uid is. It
// makes and changes nothing, and the process that uses the checkpoint is not disturbed. A topic that is missing has
// nothing.
func Inspect(ctx context.Context, cfg Config, want checkpoint.Identity) (*Found, error) {
	cfg = cfg.withDefaults(want)
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("inspect checkpoint: %w", err)
	}
	client, err := kafka.NewClient(cfg.connection())
	if err != nil {
		return nil, fmt.Errorf("inspect checkpoint %s: %w", cfg.path(), err)
	}
	defer client.Close()
	found, err := inspect(ctx, cfg, client)
	if err == nil || checkpoint.IsPermanent(err) { // which says by itself of which checkpoint it is
		return found, err
	}
	return nil, fmt.Errorf("inspect checkpoint %s: %w", cfg.path(), err)
}

func inspect(ctx context.Context, cfg Config, c cluster) (*Found, error) {
	s := &Store{cfg: cfg, path: cfg.path(), broker: c, keys: newKeys(cfg.Name), patience: cfg.Patience}
	partitions, err := cfg.partitions(ctx, c)
	if errors.Is(err, kafka.ErrNoTopic) {
		return &Found{State: &checkpoint.State{}}, nil
	}
	if err != nil {
		return nil, err
	}
	r, err := s.locate(ctx, partitions)
	if err != nil {
		return nil, err
	}
	if err := s.catchUp(ctx, r, partitions); err != nil {
		return nil, err
	}
	if err := r.admitWhole(r.head.identity); err != nil {
		return nil, err
	}
	return &Found{State: r.state(), Commits: r.head.number, Saved: r.saved}, nil
}

// catchUp reads until there is no more. Compaction may remove a record before it is read, where a later one has its
// key: so what is read is what was committed only when nothing came meanwhile.
func (s *Store) catchUp(ctx context.Context, r *replay, partitions int) error {
	for {
		bounds, err := s.bounds(ctx, partitions)
		if err != nil {
			return err
		}
		if end := bounds[r.partition].Next; r.next >= end {
			return nil
		} else if err := r.readTo(ctx, s.broker, end); err != nil {
			return err
		}
	}
}

// Check says what is wrong with the topic for a checkpoint, without making or changing anything, or taking the place of
// another process. One that is missing is created by [Open]. The error is permanent ([checkpoint.IsPermanent]) where
// the topic must not be used.
func Check(ctx context.Context, cfg Config, want checkpoint.Identity) error {
	cfg = cfg.withDefaults(want)
	if err := cfg.validate(); err != nil {
		return fmt.Errorf("check of the checkpoint: %w", err)
	}
	client, err := kafka.NewClient(cfg.connection())
	if err != nil {
		return fmt.Errorf("check of checkpoint %s: %w", cfg.path(), err)
	}
	defer client.Close()
	if _, err = cfg.partitions(ctx, client); err == nil {
		_, err = cfg.check(ctx, client)
	}
	if err == nil || errors.Is(err, kafka.ErrNoTopic) {
		return nil
	}
	return fmt.Errorf("check of checkpoint %s: %w", cfg.path(), err)
}
