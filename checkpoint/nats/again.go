// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

const (
	// patience is how long one step of a commit is tried again before its error is returned, and of everything else where the configuration does not say.
	patience = 10 * time.Second
	// Between attempts, shortened by up to a half at random.
	shortestWait = 50 * time.Millisecond
	longestWait  = 2 * time.Second
)

// again calls step until it succeeds, fails in a way that another attempt does not help, or patience or ctx ends. The last attempt is made when
// patience ends.
func again(ctx context.Context, patience time.Duration, step func() error) error {
	began := time.Now()
	for wait := shortestWait; ; wait = min(2*wait, longestWait) {
		err := step()
		if err == nil || final(err) || errors.Is(err, ctx.Err()) || time.Since(began) >= patience {
			return err
		}
		if ended := pause.For(ctx, min(wait-rand.N(wait/2), patience-time.Since(began))); ended != nil {
			return fmt.Errorf("%w (%w)", ended, err)
		}
	}
}

// final reports whether the server's answer will be the same if the same is asked again, or somebody has to decide what to ask now. A replica that takes over
// may not have yet what was acknowledged, so that something is lost is not final.
func final(err error) bool {
	var lost *LostError
	return checkpoint.IsPermanent(err) && !errors.As(err, &lost) || errors.Is(err, errNoBucket) || errors.Is(err, errLate)
}
