// SPDX-License-Identifier: Apache-2.0

package ledger

// tombstone is one that a key had at a version.
type tombstone struct {
	key     string
	version uint64
}

// tombstones are a heap: the one with the smallest version is the first. Rows of another time, whose versions no
// position passes, keep no other back.
type tombstones []tombstone

// push adds a tombstone. In the order of versions, in which a watch shows ends, it takes one comparison.
func (h *tombstones) push(t tombstone) {
	*h = append(*h, t)
	all := *h
	at := len(all) - 1
	for at > 0 {
		above := (at - 1) / 2
		if all[above].version <= t.version {
			break
		}
		all[at], at = all[above], above
	}
	all[at] = t
}

// pop removes the first.
func (h *tombstones) pop() (first tombstone) {
	all := *h
	first = all[0]
	last := len(all) - 1
	t := all[last]
	all[last] = tombstone{}
	*h = all[:last]
	if last > 0 {
		h.sink(t)
	}
	return first
}

// sink puts a tombstone where the first was.
func (h *tombstones) sink(t tombstone) {
	all, at := *h, 0
	for {
		below := 2*at + 1
		if below >= len(all) {
			break
		}
		if other := below + 1; other < len(all) && all[other].version < all[below].version {
			below = other
		}
		if all[below].version >= t.version {
			break
		}
		all[at], at = all[below], below
	}
	all[at] = t
}
