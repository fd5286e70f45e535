// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
)

// Peeker is a [checkpoint.Peeker] on a topic. It reads on where it has ended, and keeps no rows.
type Peeker struct {
	cfg    Config
	broker cluster
	close  func()
	// read is what was read of the checkpoint; nil until something of it is there.
	read *replay
}

var _ checkpoint.Peeker = (*Peeker)(nil)

// NewPeeker returns one for the checkpoint of a cluster and a pipeline. It asks nobody before the first Peek.
func NewPeeker(cfg Config, want checkpoint.Identity) (*Peeker, error) {
	cfg = cfg.withDefaults(want)
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("peek at checkpoint: %w", err)
	}
	client, err := kafka.NewClient(cfg.connection())
	if err != nil {
		return nil, fmt.Errorf("peek at checkpoint %s: %w", cfg.path(), err)
	}
	return &Peeker{cfg: cfg, broker: client, close: client.Close}, nil
}

// Peek implements [checkpoint.Peeker].
func (p *Peeker) Peek(ctx context.Context) (map[string]checkpoint.Stream, error) {
	streams, err := p.peek(ctx)
	if err != nil {
		p.read = nil // the topic may be another one
		return nil, fmt.Errorf("peek at checkpoint %s: %w", p.cfg.path(), err)
	}
	return streams, nil
}

func (p *Peeker) peek(ctx context.Context) (map[string]checkpoint.Stream, error) {
	partitions, err := p.cfg.partitions(ctx, p.broker)
	if errors.Is(err, kafka.ErrNoTopic) {
		p.read = nil
		return map[string]checkpoint.Stream{}, nil
	}
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: p.cfg, path: p.cfg.path(), broker: p.broker, keys: newKeys(p.cfg.Name), patience: p.cfg.Patience, rowless: true}
	if p.read == nil || p.read.head.number == 0 {
		if p.read, err = s.locate(ctx, partitions); err != nil {
			return nil, err
		}
	}
	if err := s.catchUp(ctx, p.read, partitions); err != nil {
		return nil, err
	}
	if err := p.read.finish(); err != nil {
		return nil, err
	}
	return maps.Clone(p.read.state().Streams), nil
}

// Close ends the connections.
func (p *Peeker) Close() error {
	p.close()
	return nil
}
