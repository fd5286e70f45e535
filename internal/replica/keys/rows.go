// SPDX-License-Identifier: Apache-2.0

package keys

import "hash/maphash"

// rows finds records by keys. A map of strings would take more than the records.
type rows struct {
	pages[record]
	names names
	// first has, by hash, where a chain begins of the rows that have it; 0 is none, 1 is the first row.
	first []int32
	seed  maphash.Seed
}

// leastChains is of how many chains an index has at least; it is a power of two.
const leastChains = 64

func newRows() rows {
	return rows{names: newNames(), first: make([]int32, leastChains), seed: maphash.MakeSeed()}
}

func (r *rows) row(id ID) *record { return r.at(int32(id)) }

// chain returns where the chain begins of rows with a scope and the hash of a name.
func (r *rows) chain(scope uint32, hash uint64) *int32 {
	return &r.first[(hash+uint64(scope))&uint64(len(r.first)-1)]
}

func (r *rows) find(k Key) (ID, bool) {
	scope := r.names.scope(k)
	if scope == 0 {
		return 0, false
	}
	for next := *r.chain(scope, maphash.String(r.seed, k.Name)); next != 0; {
		row := r.at(next - 1)
		if row.name.scope == scope && string(r.names.text(row.name.at)) == k.Name {
			return ID(next - 1), true
		}
		next = row.next
	}
	return 0, false
}

// make returns the row of a key, a new one where there is none.
func (r *rows) make(k Key) ID {
	if id, found := r.find(k); found {
		return id
	}
	if r.len() == len(r.first) {
		r.rebuild(2 * len(r.first))
	}
	id := ID(r.add())
	r.link(id, k)
	return id
}

// link gives a row its key.
func (r *rows) link(id ID, k Key) {
	row := r.row(id)
	row.name = r.names.add(k)
	first := r.chain(row.name.scope, maphash.String(r.seed, k.Name))
	row.next, *first = *first, int32(id)+1
}

func (r *rows) drop(id ID) {
	row := r.row(id)
	link := r.chain(row.name.scope, maphash.Bytes(r.seed, r.names.text(row.name.at)))
	for *link != int32(id)+1 {
		link = &r.at(*link - 1).next
	}
	*link = row.next
	r.names.remove(row.name)
	r.remove(int32(id))
}

// tidy gives back the memory of names if most of it is of dropped rows.
func (r *rows) tidy() {
	if r.names.sparse() {
		r.rebuild(len(r.first))
	}
}

// rebuild makes an index of another size, and copies the names that are used.
func (r *rows) rebuild(size int) {
	before := r.names
	r.names, r.first = newNames(), make([]int32, size)
	for id := range ID(r.n) {
		if row := r.row(id); row.used() {
			r.link(id, before.key(row.name))
		}
	}
}
