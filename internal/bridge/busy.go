// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"sync"
)

// busyness counts objects and markers that are on their way to the log.
type busyness struct {
	mu   sync.Mutex
	n    int
	idle chan struct{}
}

func (b *busyness) enter() {
	b.mu.Lock()
	b.n++
	b.mu.Unlock()
}

func (b *busyness) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n--; b.n == 0 && b.idle != nil {
		close(b.idle)
		b.idle = nil
	}
}

func (b *busyness) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.n
}

// wait returns once nothing is under way, or with ctx's error.
func (b *busyness) wait(ctx context.Context) error {
	b.mu.Lock()
	if b.n == 0 {
		b.mu.Unlock()
		return nil
	}
	if b.idle == nil {
		b.idle = make(chan struct{})
	}
	idle := b.idle
	b.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
