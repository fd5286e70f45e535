// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"maps"
	"sync"
	"time"
)

// health knows what fails at present. It is safe for concurrent use.
type health struct {
	mu sync.Mutex
	// failing has, by stream of the target, why it is not read, and under partLog why the broker is not told how far
	// the replica is.
	failing map[string]failure
}

// failure is what fails, and since when.
type failure struct {
	text  string
	since time.Time
}

// partLog is what is not a part of the target.
const partLog = "log"

func newHealth() *health { return &health{failing: make(map[string]failure)} }

// set says that a part fails; nil is that it does not.
func (h *health) set(part string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		delete(h.failing, part)
		return
	}
	since := time.Now()
	if before, again := h.failing[part]; again {
		since = before.since
	}
	h.failing[part] = failure{err.Error(), since}
}

// now returns what fails, by part, and for how long the part has that has failed longest.
func (h *health) now() (problems map[string]string, longest time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	problems = make(map[string]string, len(h.failing))
	for part, f := range h.failing {
		problems[part] = f.text
		longest = max(longest, time.Since(f.since))
	}
	return problems, longest
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
