// SPDX-License-Identifier: Apache-2.0

// Package health knows what of a replica fails at present and since when, and counts what it does.
package health

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

// Health knows what fails at present. It is safe for concurrent use.
type Health struct {
	mu sync.Mutex
	// failing has, by part, what fails.
	failing map[string]Failure
}

// Failure is why something fails, and since when.
type Failure struct {
	Err   error
	Since time.Time
}

// New returns one of a replica of which nothing fails.
func New() *Health { return &Health{failing: make(map[string]Failure)} }

// Set says that a part fails; nil is that it does not.
func (h *Health) Set(part string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		delete(h.failing, part)
		return
	}
	failure := Failure{err, time.Now()}
	if before, again := h.failing[part]; again {
		failure.Since = before.Since
	}
	h.failing[part] = failure
}

// Now returns what fails, by part.
func (h *Health) Now() map[string]Failure {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.failing)
}

// Stalls reports whether progress stays the same for as long as after. It returns false when ctx ends.
func Stalls(ctx context.Context, after time.Duration, progress func() [3]uint64) bool {
	last, since := progress(), time.Now()
	for pause.For(ctx, time.Second) == nil {
		if now := progress(); now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) >= after {
			return true
		}
	}
	return false
}

// Counts counts requests to the target by their outcome. It is safe for concurrent use.
type Counts struct {
	mu   sync.Mutex
	byOf map[string]uint64
}

// NewCounts returns one that has counted nothing.
func NewCounts() *Counts { return &Counts{byOf: make(map[string]uint64)} }

// Add counts a request.
func (c *Counts) Add(outcome string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byOf[outcome]++
}

// Now returns how many requests there were, by their outcome.
func (c *Counts) Now() map[string]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.byOf)
}
