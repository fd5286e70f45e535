// SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/nats"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

// Topic is a checkpoint in Kafka.
type Topic struct {
	Config kafka.Config
	// ID has the names of cluster and pipeline.
	ID checkpoint.Identity
}

// String implements [Place].
func (t Topic) String() string { return "topic " + t.Config.Topic }

// Look implements [Place].
func (t Topic) Look(ctx context.Context) (*Found, error) {
	found, _, err := t.look(ctx)
	return found, err
}

// Change implements [Place].
func (t Topic) Change(ctx context.Context, decide func(*checkpoint.State) (*Change, error)) (backup string, err error) {
	return changeAtBroker(ctx, t, decide)
}

// Discard implements [Place].
func (t Topic) Discard(ctx context.Context) (backup string, err error) {
	return "", kafka.Discard(ctx, t.Config, t.ID)
}

// Running implements [Place].
func (Topic) Running() error { return nil }

// Caution implements [Place].
func (Topic) Caution() string { return waiting() }

func (t Topic) look(ctx context.Context) (*Found, uint64, error) {
	found, err := kafka.Inspect(ctx, t.Config, t.ID)
	if err != nil {
		return nil, 0, err
	}
	return &Found{found.State, found.Saved}, found.Commits, nil
}

func (t Topic) open(ctx context.Context, id checkpoint.Identity) (store, error) {
	return kafka.Open(ctx, t.Config, id)
}

// Bucket is a checkpoint in a key-value bucket of NATS.
type Bucket struct {
	Config nats.Config
	// ID has the names of cluster and pipeline.
	ID checkpoint.Identity
}

// String implements [Place].
func (b Bucket) String() string { return "bucket " + b.Config.Bucket }

// Look implements [Place].
func (b Bucket) Look(ctx context.Context) (*Found, error) {
	found, _, err := b.look(ctx)
	return found, err
}

// Change implements [Place].
func (b Bucket) Change(
	ctx context.Context, decide func(*checkpoint.State) (*Change, error),
) (backup string, err error) {
	return changeAtBroker(ctx, b, decide)
}

// Discard implements [Place].
func (b Bucket) Discard(ctx context.Context) (backup string, err error) {
	return "", nats.Discard(ctx, b.Config, b.ID)
}

// Running implements [Place].
func (Bucket) Running() error { return nil }

// Caution implements [Place].
func (Bucket) Caution() string { return waiting() }

func (b Bucket) look(ctx context.Context) (*Found, uint64, error) {
	found, err := nats.Inspect(ctx, b.Config, b.ID)
	if err != nil {
		return nil, 0, err
	}
	return &Found{found.State, found.Saved}, found.Number, nil
}

func (b Bucket) open(ctx context.Context, id checkpoint.Identity) (store, error) {
	return nats.Open(ctx, b.Config, id)
}

// store is an open checkpoint.
type store interface {
	checkpoint.Store
	io.Closer
}

// broker is what has a checkpoint that is not locked while a bridge uses it.
type broker interface {
	fmt.Stringer
	// look also returns a number that is another one after each commit.
	look(ctx context.Context) (*Found, uint64, error)
	// open opens the checkpoint, unless a process uses it.
	open(ctx context.Context, id checkpoint.Identity) (store, error)
}

// watchFor is longer than it takes a bridge to write to its checkpoint.
const watchFor = 6 * time.Second

// waiting says what is done before a checkpoint is changed that is not locked.
func waiting() string {
	return fmt.Sprintf("Whether a kube-eventbridge runs with it cannot be told now: before anything is changed, what it "+
		"writes is waited for, for %v at least. A process that writes nothing\nstands still: it cannot commit any more, "+
		"and ends with exit code 1; it loses nothing.", watchFor)
}

// changeAtBroker changes a checkpoint that no process commits to for a while.
func changeAtBroker(
	ctx context.Context, at broker, decide func(*checkpoint.State) (*Change, error),
) (backup string, err error) {
	before, last, err := at.look(ctx)
	if err != nil {
		return "", err
	}
	if before.State.Identity == (checkpoint.Identity{}) {
		return "", &UnwrittenError{at.String()}
	}
	if _, err := decide(before.State); err != nil { // before anybody is kept waiting, or from work
		return "", err
	}
	if err := pause.For(ctx, watchFor); err != nil {
		return "", err
	}
	_, now, err := at.look(ctx)
	if err != nil {
		return "", err
	}
	if now != last {
		return "", &RunningError{at.String()}
	}
	s, err := at.open(ctx, before.State.Identity)
	var held *checkpoint.HeldError
	if errors.As(err, &held) {
		return "", &RunningError{at.String()}
	}
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return change(ctx, s, decide, func() (string, error) { return "", nil })
}
