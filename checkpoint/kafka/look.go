// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
)

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
