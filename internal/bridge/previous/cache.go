// SPDX-License-Identifier: Apache-2.0

package previous

import (
	"container/list"
	"sync"
)

// Budget bounds how many bytes are kept.
type Budget interface {
	// Keep has so many bytes more be kept, or returns false.
	Keep(bytes int64) bool
	// Unkeep has so many bytes less be kept.
	Unkeep(bytes int64)
}

// Cache is of one pipeline. Where there is no room, what was put least lately is forgotten, whichever stream it is of.
// It is safe for concurrent use.
type Cache struct {
	*Packer
	budget Budget
	// full is called once, when something is forgotten because there is no room.
	full func()
	once sync.Once

	mu     sync.Mutex
	recent *list.List // of *entry, the one that was put last in front
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

// NewCache returns an empty Cache. Full is called the first time that there is no room.
func NewCache(b Budget, full func()) *Cache {
	return &Cache{Packer: newPacker(), budget: b, full: full, recent: list.New()}
}

// Objects returns what is kept of a stream: the data of the last events, the objects as they were seen last, or both.
// The caller closes it.
func (c *Cache) Objects(data, objects bool) *Objects {
	return &Objects{Cache: c, KeepsData: data, KeepsObjects: objects, of: map[string]*list.Element{}}
}

// put keeps an entry if there is room, or can be; the caller holds mu.
func (c *Cache) put(e *entry) (forgot bool) {
	for !c.budget.Keep(e.size()) {
		forgot = true
		oldest := c.recent.Back()
		if oldest == nil {
			return forgot
		}
		c.remove(oldest)
	}
	e.of.of[e.key] = c.recent.PushFront(e)
	e.of.bytes += e.size()
	return forgot
}

// remove forgets an entry; the caller holds mu.
func (c *Cache) remove(at *list.Element) {
	e := c.recent.Remove(at).(*entry) //nolint:forcetypeassert // nothing else is in the list
	delete(e.of.of, e.key)
	e.of.bytes -= e.size()
	c.budget.Unkeep(e.size())
}
