// SPDX-License-Identifier: Apache-2.0

package previous

import (
	"container/list"
	"sync"
)

// Budget bounds how many bytes are cached.
type Budget interface {
	// Keep takes bytes of the budget, or returns false where too few are left.
	Keep(bytes int64) bool
	// Unkeep gives bytes back.
	Unkeep(bytes int64)
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

// put evicts others until the entry fits, and adds it. An entry that is larger than the budget is not added. The caller
// holds mu.
func (c *Cache) put(e *entry) (evicted bool) {
	for !c.budget.Keep(e.size()) {
		evicted = true
		oldest := c.recent.Back()
		if oldest == nil {
			return evicted
		}
		c.remove(oldest)
	}
	e.of.of[e.key] = c.recent.PushFront(e)
	e.of.bytes += e.size()
	return evicted
}

// remove removes an entry; the caller holds mu.
func (c *Cache) remove(at *list.Element) {
	e := c.recent.Remove(at).(*entry) //nolint:forcetypeassert // nothing else is in the list
	delete(e.of.of, e.key)
	e.of.bytes -= e.size()
	c.budget.Unkeep(e.size())
}
