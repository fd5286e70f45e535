// SPDX-License-Identifier: Apache-2.0

// Package pause waits between attempts.
package pause

import (
	"context"
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
