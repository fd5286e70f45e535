// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"iter"
	"sync"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

// Ledger knows of each object of one stream which state the log has. It is what tells a repetition from news, and what
// deletions are found with that nobody saw.
//
// A ledger may be ahead of the position it is committed with, never behind: put the row before the ticket of its change
// is settled, and commit in this order: read the position, [Ledger.Prune] to it, [Ledger.Take], commit
// all of it in one batch, and then [Ledger.Committed] or [Ledger.Untake].
//
// All methods may be called concurrently. The strings of keys and rows are kept as they are given.
type Ledger struct {
	mu   sync.Mutex
	rows map[string]*line
	live int
	// gone are the tombstones that a position can drop. Weight is that of them, and of what is uncommitted.
	gone    tombstones
	weight  *weight
	changed uncommitted
	// listed are the keys of the list that is being read; nil if none is.
	listed map[string]struct{}
}

// line is a row in its place.
type line struct {
	checkpoint.Row
	key   string
	dirty bool // it is among the ledger's dirty ones
}

// New returns a ledger of what was committed. Rows may be nil. Hold is told about how many bytes more, or fewer, are
// held of objects that do not exist any more: until [Ledger.Prune] and [Ledger.Committed], and not longer. It is called
// with a lock of the ledger, before New returns too, and must not call the ledger.
func New(rows map[string]checkpoint.Row, hold func(bytes int64)) *Ledger {
	w := &weight{tell: hold}
	l := &Ledger{
		rows: make(map[string]*line, len(rows)), weight: w,
		changed: uncommitted{weight: w, removed: map[string]struct{}{}},
	}
	for key, row := range rows {
		l.rows[key] = &line{Row: row, key: key}
		l.count(key, &row)
	}
	return l
}

// count notes that a key has a row now; the caller holds mu.
func (l *Ledger) count(key string, row *checkpoint.Row) {
	switch {
	case !row.Deleted:
		l.live++
	case !row.Behind: // else the log is owed its end
		l.gone.push(tombstone{key, row.Version})
		l.weight.add(tombstoneBytes + int64(len(key)))
	}
}

// Get returns the object's row; false if the log has nothing of it.
func (l *Ledger) Get(key string) (checkpoint.Row, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.rows[key]; ok {
		return at.Row, true
	}
	return checkpoint.Row{}, false
}

// Put records what the log has of the object now.
func (l *Ledger) Put(key string, row checkpoint.Row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.rows[key]
	switch {
	case !ok:
		at = &line{key: key}
		l.rows[key] = at
	case !at.Deleted:
		l.live--
	}
	l.count(key, &row)
	at.Row = row
	l.changed.touch(at)
}

// remove removes a line; the caller holds mu.
func (l *Ledger) remove(key string) {
	delete(l.rows, key)
	l.changed.drop(key)
}

// Held returns how many bytes hold was told of, all in all.
func (l *Ledger) Held() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.weight.held
}

// Uncount gives back all that was counted, and counts nothing any more: nothing waits until the ledger holds less.
func (l *Ledger) Uncount() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.weight.end()
}

// Prune drops the tombstones that position has passed: a watch that starts there does not show what they are for.
// Where the position is not a number, tombstones are dropped as soon as there is one. A tombstone that is
// [Row.Behind] stays: the log has an older state of the object last. While the stream owes a list, the caller does not
// prune: the list is compared with tombstones.
func (l *Ledger) Prune(position string) {
	if position == "" {
		return
	}
	passed, number := checkpoint.Number(position)
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.gone) > 0 && (!number || l.gone[0].version <= passed) {
		t := l.gone.pop()
		l.weight.add(-tombstoneBytes - int64(len(t.key)))
		// The object may have come back since, or gone once more.
		if at, ok := l.rows[t.key]; ok && prunable(&at.Row) && at.Version == t.version {
			l.remove(t.key)
		}
	}
}

// DropTombstones drops all tombstones that are not [Row.Behind]. At the start of the list of a first case no watch
// shows what they are for.
func (l *Ledger) DropTombstones() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, at := range l.rows {
		if prunable(&at.Row) {
			l.remove(key)
		}
	}
	for _, t := range l.gone {
		l.weight.add(-tombstoneBytes - int64(len(t.key)))
	}
	l.gone = nil
}

// Newest returns the greatest Version of the rows whose Epoch is since or greater; 0 if there is none.
func (l *Ledger) Newest(since uint64) (version uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, at := range l.rows {
		if at.Epoch >= since {
			version = max(version, at.Version)
		}
	}
	return version
}

// Epoch returns the greatest Epoch of all rows; 0 if there is none.
func (l *Ledger) Epoch() (epoch uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, at := range l.rows {
		epoch = max(epoch, at.Epoch)
	}
	return epoch
}

// Behind reports whether the log's last message of an object is older than its row. Objects that are left out are not
// looked at.
func (l *Ledger) Behind(leftOut func(key string) bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, at := range l.rows {
		if at.Row.Behind && !leftOut(key) {
			return true
		}
	}
	return false
}

// Len returns the number of live objects.
func (l *Ledger) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.live
}

// Rows returns all rows as they are, those of deleted objects too.
func (l *Ledger) Rows() map[string]checkpoint.Row {
	l.mu.Lock()
	defer l.mu.Unlock()
	rows := make(map[string]checkpoint.Row, len(l.rows))
	for key, at := range l.rows {
		rows[key] = at.Row
	}
	return rows
}

// All yields the live rows, in no order, each as it is when its turn comes. The ledger may be changed meanwhile.
func (l *Ledger) All() iter.Seq2[string, checkpoint.Row] {
	return func(yield func(string, checkpoint.Row) bool) {
		for _, key := range l.liveKeys() {
			if row, ok := l.Get(key); ok && !row.Deleted && !yield(key, row) {
				return
			}
		}
	}
}

// StartList begins the list in which [Ledger.Seen] marks what exists. It forgets the marks of a list before.
func (l *Ledger) StartList() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listed = map[string]struct{}{}
}

// Seen marks an object as existing. It has no effect between lists.
func (l *Ledger) Seen(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listed != nil {
		l.listed[key] = struct{}{}
	}
}

// Misses reports whether [Ledger.Unseen] would yield anything now.
func (l *Ledger) Misses() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, at := range l.rows {
		if _, seen := l.listed[key]; l.listed != nil && !seen && at.OwesEnd() {
			return true
		}
	}
	return false
}

// Unseen ends the list and yields the rows of objects that no longer exist, and whose end the log does not have as
// their last event: those that were not marked until then, and are live or [Row.Behind]. The ledger may be changed
// meanwhile; an object whose state is another when its turn comes is not yielded. Without a list Unseen yields nothing.
func (l *Ledger) Unseen() iter.Seq2[string, checkpoint.Row] {
	unseen := l.endList()
	return func(yield func(string, checkpoint.Row) bool) {
		for _, u := range unseen {
			row, ok := l.Get(u.key)
			if ok && row.OwesEnd() && sameState(&row, &u.row) && !yield(u.key, row) {
				return
			}
		}
	}
}

type keyed struct {
	key string
	row checkpoint.Row
}

// prunable reports whether a row is a tombstone that nothing is owed for.
func prunable(r *checkpoint.Row) bool { return r.Deleted && !r.Behind }

// sameState reports whether two rows are of one state of one object.
func sameState(a, b *checkpoint.Row) bool {
	return a.UID == b.UID && a.ResourceVersion == b.ResourceVersion && a.Epoch == b.Epoch && a.Deleted == b.Deleted
}

func (l *Ledger) endList() (unseen []keyed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listed == nil {
		return nil
	}
	for key, at := range l.rows {
		if _, seen := l.listed[key]; !seen && at.OwesEnd() {
			unseen = append(unseen, keyed{key, at.Row})
		}
	}
	l.listed = nil
	return unseen
}

func (l *Ledger) liveKeys() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys := make([]string, 0, l.live)
	for key, at := range l.rows {
		if !at.Deleted {
			keys = append(keys, key)
		}
	}
	return keys
}

// Take returns what changed since the last Take: rows to put and keys to drop, each key in one of the two. What becomes
// of them is owed to [Ledger.Committed] or [Ledger.Untake], unless there are none.
func (l *Ledger) Take() (put map[string]checkpoint.Row, drop []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed.take(l.rows)
}

// Committed says that what Take returned is committed.
func (l *Ledger) Committed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed.end()
}

// Untake gives back what Take returned: the next Take returns it again, in the state of that moment.
func (l *Ledger) Untake(put map[string]checkpoint.Row, drop []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range put {
		l.owe(key)
	}
	for _, key := range drop {
		l.owe(key)
	}
	l.changed.end() // behind what is owed again, or something could be read in between
}

// owe has a key taken again; the caller holds mu.
func (l *Ledger) owe(key string) {
	if at, ok := l.rows[key]; ok {
		l.changed.touch(at)
	} else {
		l.changed.drop(key)
	}
}
