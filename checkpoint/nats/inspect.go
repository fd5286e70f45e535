// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/session"
)

// Found is what a bucket has of a checkpoint.
type Found struct {
	State *checkpoint.State
	// Number is that of the newest message: it is another one after each commit.
	Number uint64
	// Saved is when the last commit was made; zero where there was none.
	Saved time.Time
}

// Inspect returns what the bucket has of the checkpoint of a cluster and a pipeline, whatever the cluster's uid is. It
// makes and changes nothing, and the process that uses the checkpoint is not disturbed. A bucket that is missing has
// nothing.
func Inspect(ctx context.Context, cfg Config, want checkpoint.Identity) (found *Found, err error) {
	err = look(ctx, "inspect", cfg, want, func(b *bucket, cfg Config) error {
		if _, err := b.check(ctx); err != nil {
			return err
		}
		found, err = inspect(ctx, log{b, session.New(cfg.path(), want, cfg.Patience)})
		return err
	})
	if errors.Is(err, errNoBucket) {
		return &Found{State: &checkpoint.State{}}, nil
	}
	return found, err
}

// Check says what is wrong with the bucket for checkpoints, without making or changing anything, or taking the place of
// another process. One that is missing is created by [Open]. The error is permanent ([checkpoint.IsPermanent]) where
// the bucket must not be used.
func Check(ctx context.Context, cfg Config) error {
	cfg.Name = "any"
	err := look(ctx, "check of", cfg, checkpoint.Identity{}, func(b *bucket, _ Config) error {
		_, err := b.check(ctx)
		return err
	})
	if errors.Is(err, errNoBucket) {
		return nil
	}
	return err
}

// look connects for a moment.
func look(
	ctx context.Context, verb string, cfg Config, want checkpoint.Identity, do func(*bucket, Config) error,
) error {
	cfg = cfg.withDefaults(want)
	if err := cfg.validate(); err != nil {
		return fmt.Errorf("%s checkpoint: %w", verb, err)
	}
	b, err := connect(ctx, cfg)
	if err == nil {
		defer b.close()
		err = again(ctx, cfg.Patience, func() error { return do(b, cfg) })
	}
	return session.Named(verb, "in bucket "+cfg.Bucket, err)
}

func inspect(ctx context.Context, l log) (*Found, error) {
	r, err := l.look(ctx)
	if err != nil {
		return nil, err
	}
	state, err := l.stateOf(r)
	return &Found{State: state, Number: r.number, Saved: r.saved}, err
}

// Discard removes the checkpoint of a cluster and a pipeline from the bucket if an older version has written it, so
// that the next [Open] begins a new one. A process of the older version gets a [*LostError] with its next commit.
// Other checkpoints stay as they are.
func Discard(ctx context.Context, cfg Config, want checkpoint.Identity) error {
	return look(ctx, "discard", cfg, want, func(b *bucket, cfg Config) error {
		if _, err := b.check(ctx); err != nil {
			return err
		}
		_, err := log{b, session.New(cfg.path(), want, cfg.Patience)}.look(ctx)
		var other *checkpoint.FormatError
		if !errors.As(err, &other) || !other.Old() {
			return err
		}
		last, err := b.last(ctx)
		if err != nil {
			return err
		}
		return b.purge(ctx, last.sequence+1)
	})
}
