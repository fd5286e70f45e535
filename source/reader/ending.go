// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"
	"sync"
)

// ending is why and when a stream ends.
type ending struct {
	end <-chan struct{}
	// refused is why the stream was ended for good; cancel ends it.
	refused error
	cancel  context.CancelFunc
}

// refuse ends the stream for good. Nothing that was admitted may be on its way: it would be lost, and its ticket never
// settled.
func (e *ending) refuse(err error) error {
	e.refused = err
	e.cancel()
	return err
}

// untilEnd returns a context that ends with ctx, and when the stream is to end.
func (e *ending) untilEnd(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if e.end == nil {
		return ctx, cancel
	}
	var waiting sync.WaitGroup
	waiting.Go(func() {
		select {
		case <-e.end:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel()
		waiting.Wait()
	}
}

func (e *ending) ended() bool {
	select {
	case <-e.end:
		return true
	default:
		return false
	}
}
