// SPDX-License-Identifier: Apache-2.0

package replica

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

// contests counts how often objects were changed back. It is safe for concurrent use.
type contests struct {
	mu    sync.Mutex
	times map[keys.ID][]time.Time
}

func newContests() *contests { return &contests{times: make(map[keys.ID][]time.Time)} }

// add counts that an object was changed back.
func (c *contests) add(id keys.ID, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.times[id] = append(lately(c.times[id], now), now)
}

// has reports whether an object is contested.
func (c *contests) has(id keys.ID, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(lately(c.times[id], now)) >= contestedTimes
}

func lately(times []time.Time, now time.Time) []time.Time {
	return slices.DeleteFunc(slices.Clone(times), func(t time.Time) bool { return now.Sub(t) >= contestedWithin })
}

// sweep forgets what is long past.
func (c *contests) sweep(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.times, func(_ keys.ID, times []time.Time) bool { return len(lately(times, now)) == 0 })
}
