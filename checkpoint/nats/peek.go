// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

// Peeker is a [checkpoint.Peeker] on a bucket. It reads on where it has ended, and keeps no rows.
type Peeker struct {
	cfg Config
	// bucket is nil before the first connection. Read is what was read of the checkpoint; nil until something of it is there.
	bucket *bucket
	read   *replay
}

var _ checkpoint.Peeker = (*Peeker)(nil)

// NewPeeker returns one for the checkpoint of a cluster and a pipeline. It connects with the first Peek.
func NewPeeker(cfg Config, want checkpoint.Identity) (*Peeker, error) {
	cfg = cfg.withDefaults(want)
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("peek at checkpoint: %w", err)
	}
	return &Peeker{cfg: cfg}, nil
}

// Peek implements [checkpoint.Peeker].
func (p *Peeker) Peek(ctx context.Context) (map[string]checkpoint.Stream, error) {
	streams, err := p.peek(ctx)
	switch {
	case errors.Is(err, errNoBucket):
		p.read = nil
		return map[string]checkpoint.Stream{}, nil
	case err != nil:
		p.read = nil // the bucket may be another one
		return nil, fmt.Errorf("peek at checkpoint %s: %w", p.cfg.path(), err)
	default:
		return streams, nil
	}
}

func (p *Peeker) peek(ctx context.Context) (map[string]checkpoint.Stream, error) {
	if p.bucket == nil {
		b, err := connect(ctx, p.cfg)
		if err != nil {
			return nil, err
		}
		p.bucket = b
	}
	s := &Store{cfg: p.cfg, path: p.cfg.path(), log: p.bucket, patience: p.cfg.Patience, rowless: true}
	err := p.follow(ctx, s)
	if err != nil {
		return nil, err
	}
	state, err := s.stateOf(p.read)
	if err != nil {
		return nil, err
	}
	return state.Streams, nil
}

// follow reads what is new.
func (p *Peeker) follow(ctx context.Context, s *Store) (err error) {
	if p.read != nil {
		last, err := p.bucket.last(ctx)
		switch {
		case err != nil:
			return err
		case last.sequence == p.read.sequence:
			return nil
		case last.sequence > p.read.sequence:
			if err := s.read(ctx, p.read, last.sequence); err != nil || p.read.torn == nil {
				return err
			}
		}
	}
	p.read, err = s.look(ctx)
	return err
}

// Close ends the connection.
func (p *Peeker) Close() error {
	if p.bucket != nil {
		p.bucket.close()
	}
	return nil
}
