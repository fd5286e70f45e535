// SPDX-License-Identifier: Apache-2.0

// Package pause waits. The tests' judges use nothing of what they judge, not even this.
package pause

import (
	"context"
	"time"
)

// For waits for d and returns nil, or the cause of ctx's end as soon as it ends.
func For(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
