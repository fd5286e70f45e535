// SPDX-License-Identifier: Apache-2.0

package ledger

import "github.com/kube-eventbridge/kube-eventbridge/checkpoint"

// tombstoneBytes is about what is held of a deleted object that has a row, without its key, and removedBytes of one
// that has none any more, until that is committed.
const tombstoneBytes, removedBytes = 300, 100

// weight is about how many bytes are held of deleted objects. The ledger's lock guards it.
type weight struct {
	held int64
	// tell is told each change, and is nil once nothing is counted any more.
	tell func(bytes int64)
}

func (w *weight) add(bytes int64) {
	if w.tell != nil {
		w.held += bytes
		w.tell(bytes)
	}
}

// end gives back what was counted, and counts nothing any more.
func (w *weight) end() {
	w.add(-w.held)
	w.tell = nil
}

// uncommitted is what has changed since the last commit. The ledger's lock guards it.
type uncommitted struct {
	weight *weight
	// dirty are the lines that have changed, and removed the keys whose lines were removed, some of which may be back.
	dirty   []*line
	removed map[string]struct{}
	// taken is the weight of what the last take returned, until its end.
	taken int64
}

// touch has the next take return a line.
func (u *uncommitted) touch(at *line) {
	if !at.dirty {
		at.dirty = true
		u.dirty = append(u.dirty, at)
	}
}

// drop has the next take return a key that has no line.
func (u *uncommitted) drop(key string) {
	if _, known := u.removed[key]; !known {
		u.removed[key] = struct{}{}
		u.weight.add(removedBytes + int64(len(key)))
	}
}

// take returns what has changed, as rows has it now.
func (u *uncommitted) take(rows map[string]*line) (put map[string]checkpoint.Row, drop []string) {
	if len(u.dirty)+len(u.removed) == 0 {
		return nil, nil
	}
	put = make(map[string]checkpoint.Row, len(u.dirty))
	for _, at := range u.dirty {
		at.dirty = false
		if rows[at.key] == at {
			put[at.key] = at.Row
		}
	}
	for key := range u.removed {
		bytes := removedBytes + int64(len(key))
		if _, back := rows[key]; back {
			u.weight.add(-bytes)
			continue
		}
		u.taken += bytes
		drop = append(drop, key)
	}
	clear(u.dirty)
	u.dirty = u.dirty[:0]
	clear(u.removed)
	return put, drop
}

// end notes that what take returned is committed, or has changed again.
func (u *uncommitted) end() {
	u.weight.add(-u.taken)
	u.taken = 0
}
