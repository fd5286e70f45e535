// SPDX-License-Identifier: Apache-2.0

// Package pause waits between attempts.
package pause

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// For waits for d and returns nil, or ctx's error as soon as ctx ends.
func For(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Backoff is how long to wait after the n-th failure, from 1: doubling from first to most, less up to a half at random.
func Backoff(n int, first, most time.Duration) time.Duration {
	d := first
	for ; n > 1 && d < most; n-- {
		d *= 2
	}
	d = min(d, most)
	return d - rand.N(d/2+1)
}

// Between attempts of [Again], shortened by up to a half at random.
const (
	ShortestWait = 50 * time.Millisecond
	LongestWait  = 2 * time.Second
)

// Again calls step until it succeeds or fails with an error that is final, or patience or ctx ends. The last attempt is
// made when patience ends. It returns the error of the last attempt.
func Again(ctx context.Context, patience time.Duration, final func(error) bool, step func() error) error {
	began := time.Now()
	for wait := ShortestWait; ; wait = min(2*wait, LongestWait) {
		err := step()
		if err == nil || final(err) || errors.Is(err, ctx.Err()) || time.Since(began) >= patience {
			return err
		}
		if ended := For(ctx, min(wait-rand.N(wait/2), patience-time.Since(began))); ended != nil {
			return fmt.Errorf("%w (%w)", ended, err)
		}
	}
}
