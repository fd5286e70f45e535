// SPDX-License-Identifier: Apache-2.0

package keys

// rows are records in pages. A slice of them all would be copied as it grows, and take twice the memory meanwhile.
type rows struct {
	pages []*page
	n     int
}

type page [1 << pageBits]record

const pageBits = 9

func (r *rows) at(id ID) *record { return &r.pages[id>>pageBits][id&(1<<pageBits-1)] }

func (r *rows) add(next record) {
	if r.n == len(r.pages)<<pageBits {
		r.pages = append(r.pages, new(page))
	}
	r.n++
	*r.at(ID(r.n - 1)) = next //nolint:gosec // memory bounds it
}
