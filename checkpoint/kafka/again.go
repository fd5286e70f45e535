// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

// patience is how long one step of a commit is tried again before its error is returned, and of everything else where
// the configuration does not say.
const patience = 10 * time.Second

// again calls step until it succeeds, fails in a way that another attempt does not help, or patience or ctx ends. The
// last attempt is made when patience ends.
func again(ctx context.Context, patience time.Duration, step func() error) error {
	return pause.Again(ctx, patience, final, step)
}

// final reports whether the broker's answer will be the same if the same is asked again, or somebody has to decide what
// to ask now.
func final(err error) bool {
	return checkpoint.IsPermanent(err) || kafka.Fenced(err) || kafka.Confused(err) || kafka.TooLarge(err) ||
		kafka.Malformed(err) || kafka.Forbidden(err) || kafka.Repeated(err)
}
