// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

// Discard removes the checkpoint of a cluster and a pipeline from the bucket if an older version has written it, so
// that the next [Open] begins a new one. A process of the older version gets a [*LostError] with its next commit.
// Other checkpoints stay as they are.
func Discard(ctx context.Context, cfg Config, want checkpoint.Identity) error {
	return look(ctx, "discard", cfg, want, func(b *bucket, cfg Config) error {
		if _, err := b.check(ctx); err != nil {
			return err
		}
		s := &Store{cfg: cfg, path: cfg.path(), log: b, patience: cfg.Patience}
		_, err := s.look(ctx)
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
