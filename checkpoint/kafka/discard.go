// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
)

// Discard removes the checkpoint of a cluster and a pipeline from the topic if an older version has written it, so
// that the next [Open] begins a new one. A process of the older version cannot commit any more. Other checkpoints stay
// as they are. After an error Discard may be called again.
func Discard(ctx context.Context, cfg Config, want checkpoint.Identity) error {
	cfg = cfg.withDefaults(want)
	if err := cfg.validate(); err != nil {
		return fmt.Errorf("discard checkpoint: %w", err)
	}
	client, err := kafka.NewClient(cfg.connection())
	if err == nil {
		defer client.Close()
		err = discard(ctx, cfg, want, client)
	}
	if err == nil || checkpoint.IsPermanent(err) { // which says by itself of which checkpoint it is
		return err
	}
	return fmt.Errorf("discard checkpoint %s: %w", cfg.path(), err)
}

func discard(ctx context.Context, cfg Config, want checkpoint.Identity, c cluster) error {
	s := &Store{cfg: cfg, want: want, path: cfg.path(), broker: c, keys: newKeys(cfg.Name), patience: cfg.Patience}
	partitions, err := cfg.partitions(ctx, c)
	if err != nil {
		return err
	}
	if s.limit, err = cfg.check(ctx, c); err != nil {
		return err
	}
	found, old, err := s.keysIn(ctx, partitions)
	if err != nil || !old {
		return err
	}
	id, err := s.init(ctx) // which fences the older version
	if err != nil {
		return err
	}
	for _, partition := range slices.Sorted(maps.Keys(found)) {
		s.out = &producer{
			broker: c, topic: cfg.Topic, partition: partition, codec: batch.NewCodec(cfg.Compression),
			patience: cfg.Patience,
		}
		s.out.take(id)
		nulls := func(yield func(string, []byte) bool) {
			for key := range found[partition] {
				if !yield(key, nil) {
					return
				}
			}
		}
		if err := errors.Join(s.spread(ctx, nulls), s.send(ctx, nil)); err != nil {
			return err
		}
	}
	return nil
}

// keysIn returns the keys of the checkpoint's records by partition, and whether one is of an older version.
func (s *Store) keysIn(ctx context.Context, partitions int) (keys map[int32]map[string]bool, old bool, err error) {
	bounds, err := s.bounds(ctx, partitions)
	if err != nil {
		return nil, false, err
	}
	keys = map[int32]map[string]bool{}
	for partition, b := range bounds {
		live, outdated := map[string]bool{}, map[string]bool{}
		r := s.newReplay(partition, b.First)
		err := r.fetchTo(ctx, s.broker, b.Next, func(record *kafka.Record) error {
			if _, ours := cutPrefix(record.Key, r.prefix); !ours {
				return nil
			}
			key := string(record.Key)
			delete(live, key)
			delete(outdated, key)
			if record.Value != nil {
				live[key], outdated[key] = true, len(record.Value) > 0 && record.Value[0] < format
			}
			return nil
		})
		if err != nil {
			return nil, false, err
		}
		if len(live) > 0 {
			keys[partition] = live
		}
		for _, is := range outdated {
			old = old || is
		}
	}
	return keys, old, nil
}
