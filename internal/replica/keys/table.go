// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"iter"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Table holds the rows of a replica. It is safe for concurrent use.
type Table struct {
	mu    sync.Mutex
	rows  rows
	haves pages[have]
	odd   map[ID]oddity
	// ours is how many objects of the target are the replica's, by what the log says of them.
	ours [Gone + 1]int
	// byOrigin finds rows by what stands for their uid in the source; nil if they are not looked for.
	byOrigin map[uint32]ID
	// forgot: rows were removed of which the log may still tell.
	forgot bool
}

// New returns an empty table. WithOrigins says that ByOrigin is used.
func New(withOrigins bool) *Table {
	t := &Table{rows: newRows(), odd: make(map[ID]oddity)}
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
	if !found || t.rows.row(id).origin != origin {
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
	return t.rows.len(), ours
}

// Learn records what an event of the log says, unless the row has a newer one. An event with the sequence that the row
// has replaces it: it may be whole where the one before was not. Told is the mark of the newest resync that tells it,
// or 0; an event counts as told whether it is newer or not. Before is what the row had.
func (t *Table) Learn(k Key, d Desired, told uint32) (id ID, before Desired, learned bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id = t.rows.make(k)
	r := t.rows.row(id)
	r.told = max(r.told, told)
	before = r.desired()
	if r.claim != Unknown && before.After(d.Sequence) {
		return id, before, false
	}
	// An end that is told again does not move its time.
	if r.claim == d.Claim && !d.Claim.Exists() && before.Sequence == d.Sequence {
		d.At, d.Young, d.LeftOut = before.At, before.Young, before.LeftOut
	}
	// An object that is to be deleted is counted once, however often it is told.
	d.Counted = before.Counted && before.Claim == d.Claim && before.Origin == d.Origin
	t.desire(r, d)
	if t.byOrigin != nil && d.Claim.Exists() {
		t.byOrigin[d.Origin] = id
	}
	return id, before, true
}

// CountEnd says that the deletion of an object counts, which ended at a time. It is false if that was said before.
func (t *Table) CountEnd(k Key, at time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	id, found := t.rows.find(k)
	if !found {
		return false
	}
	r := t.rows.row(id)
	if r.is(counted) {
		return false
	}
	r.mark(counted, true)
	r.at = millis(at)
	return true
}

// Untold reports whether Prune would claim that the object of a row is gone.
func (t *Table) Untold(id ID, told uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rows.row(id).untold(told)
}

// Prune claims that the object of a row is gone, as d says, unless it was told by the resync or a later one. What the
// target does not have is young: nothing is deleted.
func (t *Table) Prune(id ID, d Desired, told uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rows.row(id)
	if !r.untold(told) {
		return false
	}
	// The object ends as it was last seen: any event behind that is newer.
	d.Sequence, d.Young = r.sequence(), r.has == 0
	if h := t.have(r); h != nil && h.applied().After(d.Sequence) {
		d.Sequence = h.applied()
	}
	t.desire(r, d)
	return true
}

// Observe records how the target has an object, unless the row has a later version of the same object. Changed says
// that the row is not as it was left: the content or what was applied differs.
func (t *Table) Observe(k Key, a Actual) (id ID, changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id = t.rows.make(k)
	before := t.get(id)
	was := before.Actual
	if was.Owner != Absent && was.UID == a.UID && older(a.Version, was.Version) {
		return id, false
	}
	same := was.Owner == a.Owner && was.Applied == a.Applied && was.Digest == a.Digest && was.UID == a.UID &&
		was.Terminating == a.Terminating
	right := before.Accepted && same
	t.set(id, a, right)
	return id, !right
}

// Written records what the API server has answered to a write of the replica: its content is accepted. Ends is that of
// the row when the request was made. If it has changed, the watch has told of a deletion, which may be that of what was
// written: then nothing is recorded.
func (t *Table) Written(id ID, ends uint8, a Actual) {
	t.mu.Lock()
	defer t.mu.Unlock()
	row := t.get(id)
	was := row.Actual
	if row.Ends != ends || was.Owner != Absent && was.UID == a.UID && older(a.Version, was.Version) {
		return // somebody has changed it since
	}
	t.set(id, a, true)
}

// Fetched records how the target has an object, as a request has told that was made when the row had ends. A version
// that is older than the known one counts too. It is false if a deletion was told since; then nothing is recorded.
func (t *Table) Fetched(id ID, ends uint8, a Actual) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rows.row(id).ends != ends {
		return false
	}
	t.set(id, a, false)
	return true
}

// Accept says that the content with the digest is right. It is false if the object has other content by now.
func (t *Table) Accept(id ID, digest uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.have(t.rows.row(id))
	if h == nil {
		return false
	}
	h.marks.set(accepted, h.digest == digest)
	return h.marks.has(accepted)
}

// Vanish records that the target has no object any more that is the replica's: the one with the uid has ended, or any
// where uid is empty. It reports whether there was one.
func (t *Table) Vanish(k Key, uid string) (id ID, found bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id, found = t.rows.find(k)
	if !found || t.rows.row(id).has == 0 || uid != "" && t.get(id).Actual.UID != uid {
		return id, false
	}
	t.set(id, Actual{}, false)
	t.rows.row(id).ends++
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
	id, found := t.rows.find(k)
	if !found {
		return Row{}, 0, false
	}
	return t.get(id), id, true
}

// All returns the rows there are when it comes to them. The table may be used meanwhile.
func (t *Table) All() iter.Seq2[ID, Row] { return t.which(func(uint16) bool { return true }) }

// Of is [Table.All], of one resource.
func (t *Table) Of(resource uint16) iter.Seq2[ID, Row] {
	return t.which(func(r uint16) bool { return r == resource })
}

func (t *Table) which(selects func(resource uint16) bool) iter.Seq2[ID, Row] {
	return func(yield func(ID, Row) bool) {
		for id := ID(0); ; id++ {
			t.mu.Lock()
			if int32(id) >= t.rows.n {
				t.mu.Unlock()
				return
			}
			r, row := t.rows.row(id), Row{}
			selected := r.used() && selects(t.rows.names.scopes[r.name.scope].resource)
			if selected {
				row = t.get(id)
			}
			t.mu.Unlock()
			if selected && !yield(id, row) {
				return
			}
		}
	}
}

// Open says that an event of a row was read, in a part of the log, and is not handled. It is false if one before is not
// either: then that one's part counts.
func (t *Table) Open(id ID, part uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rows.row(id)
	if r.part != 0 {
		return false
	}
	r.part = part
	return true
}

// Handled says that nothing more is to be done about a row whose newest event is at a position. It returns the part of
// its oldest event that was not handled; 0 if there is none, or a newer event is known by now.
func (t *Table) Handled(id ID, position uint64) (part uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rows.row(id)
	if r.position != position {
		return 0
	}
	part, r.part = r.part, 0
	return part
}

// Sweep removes the rows that nothing needs any more: the target has nothing of the replica, the log tells nothing or
// that the object is gone, and nothing has changed since the last Sweep. An end that counts and is not before a time is
// needed: the object may come back.
func (t *Table) Sweep(before time.Time) {
	for id := ID(0); sweep(t, id, before); id++ {
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows.tidy()
}

// sweep does that with one row. It is false behind the last one.
func sweep(t *Table, id ID, before time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if int32(id) >= t.rows.n {
		return false
	}
	r := t.rows.row(id)
	switch {
	case !r.used() || r.claim != Gone && r.claim != Unknown || r.has != 0 || r.part != 0:
	case r.claim == Gone && r.desired().Weighs() && r.at >= millis(before):
	case r.is(swept):
		if t.byOrigin[r.origin] == id {
			delete(t.byOrigin, r.origin)
		}
		t.forgot = t.forgot || r.claim == Gone
		t.rows.drop(id)
	default:
		r.mark(swept, true)
	}
	return true
}

// MayHaveForgotten reports whether there is no row of a key, and Sweep has removed some of objects that were gone.
func (t *Table) MayHaveForgotten(k Key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, found := t.rows.find(k)
	return t.forgot && !found
}

// have returns what the target has of a row; nil if it has nothing.
func (t *Table) have(r *record) *have {
	if r.has == 0 {
		return nil
	}
	return t.haves.at(r.has - 1)
}

func (t *Table) get(id ID) Row {
	r := t.rows.row(id)
	if !r.used() {
		return Row{}
	}
	row := Row{Key: t.rows.names.key(r.name), Desired: r.desired(), Ends: r.ends}
	if h := t.have(r); h != nil {
		row.Actual, row.Accepted = h.actual(), h.marks.has(accepted)
		if o, odd := t.odd[id]; odd {
			row.Actual.UID, row.Actual.Version = o.uid, o.version
		}
	}
	return row
}

func (t *Table) desire(r *record, d Desired) {
	if h := t.have(r); h != nil && h.owner == Ours {
		t.ours[r.claim]--
		t.ours[d.Claim]++
	}
	r.setDesired(d)
	r.mark(swept, false)
}

func (t *Table) set(id ID, a Actual, right bool) {
	r := t.rows.row(id)
	if h := t.have(r); h != nil && h.owner == Ours {
		t.ours[r.claim]--
	}
	if a.Owner == Ours {
		t.ours[r.claim]++
	}
	delete(t.odd, id)
	r.mark(swept, false)
	switch {
	case a.Owner == Absent && r.has != 0:
		t.haves.remove(r.has - 1)
		r.has = 0
		return
	case a.Owner == Absent:
		return
	case r.has == 0:
		r.has = t.haves.add() + 1
	}
	h := t.have(r)
	if left, odd := h.set(a); odd {
		t.odd[id] = left
	}
	h.marks.set(accepted, right)
}

// older reports whether version a comes before b; what does not compare does not.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
