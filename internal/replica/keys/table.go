// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"iter"
	"sync"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Table holds the rows of a replica. It is safe for concurrent use.
type Table struct {
	mu   sync.Mutex
	ids  []map[string]ID // by resource
	rows rows
	free []ID
	odd  map[ID]oddity
	// ours is how many objects of the target are the replica's, by what the log says of them.
	ours [Gone + 1]int
	// byOrigin finds rows by what stands for their uid in the source; nil if they are not looked for.
	byOrigin map[uint32]ID
}

// New returns an empty table. WithOrigins says that ByOrigin is used.
func New(withOrigins bool) *Table {
	t := &Table{odd: make(map[ID]oddity)}
	if withOrigins {
		t.byOrigin = make(map[uint32]ID)
	}
	return t
}

// ByOrigin returns the row of the object that had a uid in the source when it was last told.
func (t *Table) ByOrigin(origin uint32) (Row, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id, found := t.byOrigin[origin]
	if !found || t.rows.at(id).want.origin != origin {
		return Row{}, false
	}
	return t.get(id), true
}

// Len returns how many rows there are, and how many objects of the target are the replica's.
func (t *Table) Len() (rows, ours int) {
	return t.Count(func(Claim) bool { return true })
}

// Count is [Table.Len], of objects of which the log makes a claim that counts.
func (t *Table) Count(counts func(Claim) bool) (rows, ours int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for claim, n := range t.ours {
		if counts(Claim(claim)) { //nolint:gosec // few exist
			ours += n
		}
	}
	return t.rows.n - len(t.free), ours
}

// Learn records what an event of the log says, unless the row has a newer one. An event with the sequence that the row
// has replaces it: it may be whole where the one before was not. Told is the mark of the newest resync that tells it,
// or 0; an event counts as told whether it is newer or not. Before is what the row had.
func (t *Table) Learn(k Key, d Desired, told uint32) (id ID, before Desired, learned bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id = t.row(k)
	r := t.rows.at(id)
	r.told = max(r.told, told)
	before = r.desired()
	if r.want.claim != Unknown && before.After(d.Sequence) {
		return id, before, false
	}
	// A deletion that is told again does not move its time.
	if r.want.claim == Gone && d.Claim == Gone && before.Sequence == d.Sequence {
		d.At = before.At
	}
	t.desire(r, d)
	if t.byOrigin != nil && d.Claim.Exists() {
		t.byOrigin[d.Origin] = id
	}
	return id, before, true
}

// Untold reports whether Prune would claim that the object of a row is gone.
func (t *Table) Untold(id ID, told uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rows.at(id).untold(told)
}

// Prune claims that the object of a row is gone, as d says, unless it was told by the resync or a later one.
func (t *Table) Prune(id ID, d Desired, told uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rows.at(id)
	if !r.untold(told) {
		return false
	}
	// The object ends as it was last seen: any event behind that is newer.
	if d.Sequence = r.desired().Sequence; r.actual().Applied.After(d.Sequence) {
		d.Sequence = r.actual().Applied
	}
	t.desire(r, d)
	return true
}

// Observe records how the target has an object, unless the row has a later version of the same object. Changed says
// that the row is not as it was left: the content or what was applied differs.
func (t *Table) Observe(k Key, a Actual) (id ID, changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id = t.row(k)
	r := t.rows.at(id)
	before, was := r.actual(), t.identity(id)
	if before.Owner != Absent && was.uid == a.UID && older(a.Version, was.version) {
		return id, false
	}
	same := before.Owner == a.Owner && before.Applied == a.Applied && before.Digest == a.Digest && was.uid == a.UID &&
		before.Terminating == a.Terminating
	t.set(id, a)
	r.accepted = r.accepted && same
	return id, !same || !r.accepted
}

// Written records what the API server has answered to a write of the replica: its content is accepted. Ends is that of
// the row when the request was made. If it has changed, the watch has told of a deletion, which may be that of what was
// written: then nothing is recorded.
func (t *Table) Written(id ID, ends uint8, a Actual) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.identity(id)
	r := t.rows.at(id)
	if r.ends != ends || r.have.owner != Absent && was.uid == a.UID && older(a.Version, was.version) {
		return // somebody has changed it since
	}
	t.set(id, a)
	t.rows.at(id).accepted = true
}

// Fetched records how the target has an object, as a request has told that was made when the row had ends. A version
// that is older than the known one counts too. It is false if a deletion was told since; then nothing is recorded.
func (t *Table) Fetched(id ID, ends uint8, a Actual) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rows.at(id).ends != ends {
		return false
	}
	t.set(id, a)
	t.rows.at(id).accepted = false
	return true
}

// Accept says that the content with the digest is right. It is false if the object has other content by now.
func (t *Table) Accept(id ID, digest uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rows.at(id)
	r.accepted = r.have.owner != Absent && r.have.digest == digest
	return r.accepted
}

// Vanish records that the target has no object any more that is the replica's: the one with the uid has ended, or any
// where uid is empty. It reports whether there was one.
func (t *Table) Vanish(k Key, uid string) (id ID, found bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id, found = t.find(k)
	if !found || t.rows.at(id).have.owner == Absent || uid != "" && t.identity(id).uid != uid {
		return id, false
	}
	t.set(id, Actual{})
	t.rows.at(id).ends++
	return id, true
}

// Get returns a row.
func (t *Table) Get(id ID) Row {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.get(id)
}

// Find returns the row of a key.
func (t *Table) Find(k Key) (Row, ID, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id, found := t.find(k)
	if !found {
		return Row{}, 0, false
	}
	return t.get(id), id, true
}

// All returns the rows there are when it comes to them. The table may be used meanwhile.
func (t *Table) All() iter.Seq2[ID, Row] {
	return func(yield func(ID, Row) bool) {
		for id := ID(0); ; id++ {
			t.mu.Lock()
			if int(id) >= t.rows.n {
				t.mu.Unlock()
				return
			}
			used := t.rows.at(id).used
			row := t.get(id)
			t.mu.Unlock()
			if used && !yield(id, row) {
				return
			}
		}
	}
}

// Drop removes a row that nothing needs any more: the object is gone, in the log and in the target.
func (t *Table) Drop(id ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rows.at(id)
	if !r.used || r.have.owner != Absent || r.want.claim != Gone {
		return false
	}
	delete(t.ids[r.resource], r.name)
	if t.byOrigin[r.want.origin] == id {
		delete(t.byOrigin, r.want.origin)
	}
	*r = record{}
	t.free = append(t.free, id)
	return true
}

func (t *Table) find(k Key) (ID, bool) {
	if int(k.Resource) >= len(t.ids) {
		return 0, false
	}
	id, found := t.ids[k.Resource][nameOf(k)]
	return id, found
}

// row returns the row of a key, a new one where there is none.
func (t *Table) row(k Key) ID {
	if id, found := t.find(k); found {
		return id
	}
	for int(k.Resource) >= len(t.ids) {
		t.ids = append(t.ids, make(map[string]ID))
	}
	r := record{name: nameOf(k), resource: k.Resource, used: true}
	var id ID
	if n := len(t.free); n > 0 {
		id, t.free = t.free[n-1], t.free[:n-1]
		*t.rows.at(id) = r
	} else {
		id = ID(t.rows.n) //nolint:gosec // memory bounds it
		t.rows.add(r)
	}
	t.ids[k.Resource][r.name] = id
	return id
}

func (t *Table) get(id ID) Row {
	r := t.rows.at(id)
	row := Row{Key: r.key(), Desired: r.desired(), Actual: r.actual(), Accepted: r.accepted, Ends: r.ends}
	if r.odd {
		o := t.odd[id]
		row.Actual.UID, row.Actual.Version = o.uid, o.version
	}
	return row
}

func (t *Table) identity(id ID) oddity {
	a := t.get(id).Actual
	return oddity{a.UID, a.Version}
}

func (t *Table) desire(r *record, d Desired) {
	if r.have.owner == Ours {
		t.ours[r.want.claim]--
		t.ours[d.Claim]++
	}
	r.setDesired(d)
}

func (t *Table) set(id ID, a Actual) {
	r := t.rows.at(id)
	if r.have.owner == Ours {
		t.ours[r.want.claim]--
	}
	if a.Owner == Ours {
		t.ours[r.want.claim]++
	}
	delete(t.odd, id)
	if left, odd := r.setActual(a); odd {
		t.odd[id] = left
	}
	if a.Owner == Absent {
		r.accepted = false
	}
}

// older reports whether version a comes before b; what does not compare does not.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
