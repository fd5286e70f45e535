// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"maps"
	"sync"
)

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
