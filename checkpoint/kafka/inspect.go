// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/session"
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
func Inspect(ctx context.Context, cfg Config, want checkpoint.Identity) (found *Found, err error) {
	err = look("inspect", cfg, want, func(cfg Config, c cluster) error {
		found, err = inspect(ctx, cfg, c)
		return err
	})
	return found, err
}

// look connects for a moment.
func look(verb string, cfg Config, want checkpoint.Identity, do func(Config, cluster) error) error {
	cfg = cfg.withDefaults(want)
	if err := cfg.validate(); err != nil {
		return fmt.Errorf("%s checkpoint: %w", verb, err)
	}
	client, err := kafka.NewClient(cfg.connection())
	if err == nil {
		defer client.Close()
		err = do(cfg, client)
	}
	return session.Named(verb, cfg.path(), err)
}

func inspect(ctx context.Context, cfg Config, c cluster) (*Found, error) {
	l := newLog(&cfg, session.New(cfg.path(), checkpoint.Identity{}, cfg.Patience), c)
	partitions, err := cfg.partitions(ctx, c)
	if errors.Is(err, kafka.ErrNoTopic) {
		return &Found{State: &checkpoint.State{}}, nil
	}
	if err != nil {
		return nil, err
	}
	r, err := l.locate(ctx, partitions)
	if err != nil {
		return nil, err
	}
	if err := l.catchUp(ctx, r, partitions); err != nil {
		return nil, err
	}
	if err := r.admitWhole(r.head.identity); err != nil {
		return nil, err
	}
	return &Found{State: r.state(), Commits: r.head.number, Saved: r.saved}, nil
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
