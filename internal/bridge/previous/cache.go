// SPDX-License-Identifier: Apache-2.0

package previous

import (
	"container/list"
	"sync"
)

// Budget bounds how many bytes are cached.
type Budget interface {
	// Keep takes bytes of the budget, or returns false where too few are left. A negative number gives bytes back.
	Keep(bytes int64) bool
	// CanKeep reports whether so many bytes could be kept if no others were.
	CanKeep(bytes int64) bool
	// KeepsTooMuch reports whether the budget has become smaller than what is kept.
	KeepsTooMuch() bool
}

// Cache is the cache of one pipeline. When its budget is used up, it evicts the state that was put first, of whichever
// stream. It is safe for concurrent use.
type Cache struct {
	*Packer
	budget Budget
	// full is called at the first eviction.
	full func()
	once sync.Once

	mu     sync.Mutex
	recent *list.List // of *entry, the latest in front
}

// entry is the state of one object.
type entry struct {
	of  *Objects
	key string
	State
}

// entryOverhead is what an entry takes besides data and key: its places in the map and in the list, and the texts of
// uid and versions.
const entryOverhead = 340

// size is about what an entry takes in memory.
func (e *entry) size() int64 { return int64(len(e.Data) + len(e.Object) + len(e.key) + entryOverhead) }

// NewCache returns an empty Cache. It calls full at the first eviction.
func NewCache(b Budget, full func()) *Cache {
	return &Cache{Packer: newPacker(), budget: b, full: full, recent: list.New()}
}

// Objects returns the part of a stream: the data of the last events, the objects as they were seen last, or both. The
// caller closes it.
func (c *Cache) Objects(data, objects bool) *Objects {
	return &Objects{Cache: c, KeepsData: data, KeepsObjects: objects, of: map[string]*list.Element{}}
}

// Trim evicts states while the budget is smaller than what is kept.
func (c *Cache) Trim() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.budget.KeepsTooMuch() {
		c.budget.Keep(-c.remove(c.recent.Back()))
	}
}

// put adds an entry, in the place of another one if that is not nil. It evicts others until the entry fits. It returns
// false where an entry had to go, or this one could not be added. The caller holds mu.
func (c *Cache) put(e *entry, old *list.Element) (fits bool) {
	freed := c.remove(old)
	if !c.budget.CanKeep(e.size()) {
		c.budget.Keep(-freed)
		return false
	}
	// What is evicted is not given back in between: a reader that waits for room would take it.
	for fits = true; !c.budget.Keep(e.size() - freed); fits = false {
		oldest := c.recent.Back()
		if oldest == nil {
			c.budget.Keep(-freed)
			return false
		}
		freed += c.remove(oldest)
	}
	e.of.of[e.key] = c.recent.PushFront(e)
	e.of.bytes += e.size()
	return fits
}

// remove removes an entry, if there is one, and returns how many bytes are to be given back. The caller holds mu.
func (c *Cache) remove(at *list.Element) int64 {
	if at == nil {
		return 0
	}
	e := c.recent.Remove(at).(*entry) //nolint:forcetypeassert // nothing else is in the list
	delete(e.of.of, e.key)
	e.of.bytes -= e.size()
	return e.size()
}
