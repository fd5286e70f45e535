// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"

	"golang.org/x/sync/semaphore"

	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// window bounds the messages that are not settled, and the bytes of their data. One that is larger than the window
// passes alone.
type window struct {
	slots chan struct{}
	limit int64
	bytes *semaphore.Weighted
}

func newWindow(messages int, bytes int64) *window {
	return &window{slots: make(chan struct{}, messages), limit: bytes, bytes: semaphore.NewWeighted(bytes)}
}

// acquire waits for room, until ctx ends or over is closed.
func (w *window) acquire(ctx context.Context, over <-chan struct{}, size int64) error {
	select {
	case w.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-over:
		return sink.ErrNotRunning
	}
	if err := w.bytes.Acquire(ctx, min(size, w.limit)); err != nil {
		<-w.slots
		return err
	}
	return nil
}

func (w *window) release(size int64) {
	w.bytes.Release(min(size, w.limit))
	<-w.slots
}
