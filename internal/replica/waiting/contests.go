// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
)

// An object is contested that somebody has changed back contestedTimes in contestedWithin.
const (
	contestedTimes  = 3
	contestedWithin = 10 * time.Minute
)

// Contests counts how often objects were changed back. It is safe for concurrent use.
type Contests struct {
	mu    sync.Mutex
	times map[keys.ID][]time.Time
}

// NewContests returns one that has counted nothing.
func NewContests() *Contests { return &Contests{times: make(map[keys.ID][]time.Time)} }

// Add counts that an object was changed back.
func (c *Contests) Add(id keys.ID, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.times[id] = append(lately(c.times[id], now), now)
}

// Forget forgets what was counted of an object: the source has another one under its name.
func (c *Contests) Forget(id keys.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.times, id)
}

// Has reports whether an object is contested.
func (c *Contests) Has(id keys.ID, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(lately(c.times[id], now)) >= contestedTimes
}

func lately(times []time.Time, now time.Time) []time.Time {
	return slices.DeleteFunc(slices.Clone(times), func(t time.Time) bool { return now.Sub(t) >= contestedWithin })
}

// Sweep forgets what is long past.
func (c *Contests) Sweep(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.times, func(_ keys.ID, times []time.Time) bool { return len(lately(times, now)) == 0 })
}
