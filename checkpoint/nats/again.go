// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
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

// final reports whether the server's answer will be the same if the same is asked again, or somebody has to decide what
// to ask now. A replica that takes over may not have yet what was acknowledged, so that something is lost is not final.
func final(err error) bool {
	var lost *LostError
	var held *checkpoint.HeldError
	if errors.As(err, &held) {
		return true
	}
	return checkpoint.IsPermanent(err) && !errors.As(err, &lost) || errors.Is(err, errNoBucket) || errors.Is(err, errLate)
}
