// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/session"
)

// Discard removes the checkpoint of a cluster and a pipeline from the topic if an older version has written it, so
// that the next [Open] begins a new one. A process of the older version cannot commit any more. Other checkpoints stay
// as they are. After an error Discard may be called again.
func Discard(ctx context.Context, cfg Config, want checkpoint.Identity) error {
	return look("discard", cfg, want, func(cfg Config, c cluster) error { return discard(ctx, cfg, want, c) })
}

func discard(ctx context.Context, cfg Config, want checkpoint.Identity, c cluster) error {
	use := session.New(cfg.path(), want, cfg.Patience)
	l := newLog(&cfg, use, c)
	partitions, err := cfg.partitions(ctx, c)
	if err != nil {
		return err
	}
	limit, err := cfg.check(ctx, c)
	if err != nil {
		return err
	}
	found, old, err := l.keysIn(ctx, partitions)
	if err != nil || !old {
		return err
	}
	f := fence{cfg: &cfg, session: use, broker: c}
	id, err := f.init(ctx, nil) // which fences the older version
	if err != nil {
		return err
	}
	for _, partition := range slices.Sorted(maps.Keys(found)) {
		out := newProducer(&cfg, use, c, partition, limit)
		out.take(id)
		nulls := func(yield func(string, []byte) bool) {
			for key := range found[partition] {
				if !yield(key, nil) {
					return
				}
			}
		}
		if err := errors.Join(out.spread(ctx, nulls), out.send(ctx, nil)); err != nil {
			return err
		}
	}
	return nil
}
