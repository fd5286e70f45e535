// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"sync"
)

// InFlight counts objects and markers that are on their way to the log. The zero InFlight counts none. Its methods may
// be called by several goroutines at a time.
type InFlight struct {
	mu   sync.Mutex
	n    int
	idle chan struct{}
}

// Enter counts one more.
func (b *InFlight) Enter() {
	b.mu.Lock()
	b.n++
	b.mu.Unlock()
}

// Leave counts one less.
func (b *InFlight) Leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n--; b.n == 0 && b.idle != nil {
		close(b.idle)
		b.idle = nil
	}
}

// Count returns how many there are.
func (b *InFlight) Count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.n
}

// Wait returns once nothing is under way, or with ctx's error.
func (b *InFlight) Wait(ctx context.Context) error {
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
