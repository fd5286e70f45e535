// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"maps"
	"sync"
)

// health knows what fails at present. It is safe for concurrent use.
type health struct {
	mu sync.Mutex
	// target has, by stream of the target, why it is not read; progress is why the broker is not told how far it is.
	target   map[string]error
	progress error
}

func newHealth() *health { return &health{target: make(map[string]error)} }

func (h *health) targetFailed(stream string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.target[stream] = err
}

func (h *health) targetAnswers(stream string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.target, stream)
}

func (h *health) setProgress(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.progress = err
}

func (h *health) now() (target map[string]error, progress error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.target), h.progress
}

// counts counts requests to the target by their outcome. It is safe for concurrent use.
type counts struct {
	mu   sync.Mutex
	byOf map[string]uint64
}

func newCounts() *counts { return &counts{byOf: make(map[string]uint64)} }

func (c *counts) add(outcome string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byOf[outcome]++
}

func (c *counts) now() map[string]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.byOf)
}
