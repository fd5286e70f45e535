// SPDX-License-Identifier: Apache-2.0

package source

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson"
)

// Body is the JSON of one object, shared by reference count: its memory is used again once the last
// reference is released. All methods are safe for concurrent use.
type Body struct {
	data []byte
	refs atomic.Int32
}

// Bytes returns the JSON. It must not be changed, and not be used after the caller's Release.
func (b *Body) Bytes() []byte {
	if b == nil {
		return nil
	}
	return b.data
}

// Retain adds a reference and returns b. The caller holds, or was lent, one already.
func (b *Body) Retain() *Body {
	if b != nil && b.refs.Add(1) <= 1 {
		panic("BUG: body retained after its last release")
	}
	return b
}

// Release gives one reference back. Releasing nil does nothing; releasing more often than retained panics, unless the
// memory has a new owner by then.
func (b *Body) Release() {
	if b == nil {
		return
	}
	switch n := b.refs.Add(-1); {
	case n > 0:
	case n < 0:
		panic("BUG: body released twice")
	default:
		if c := class(cap(b.data)); c >= 0 && cap(b.data) == classSize(c) {
			bodies[c].Put(b)
		}
	}
}

// Bodies come in sizes that are a quarter apart from one power of two to the next: a pool holds what is like it, and a
// body has less than a quarter more memory than it needs. Larger ones than maxBody are rare and left to the garbage
// collector.
const (
	minBody = 1 << 10
	maxBody = 1 << 17
	classes = 1 + 4*7
)

// A pool per size class. It holds memory and no state, so one for the process is right.
var bodies [classes]sync.Pool

// class returns the smallest class that holds n bytes, -1 for none.
func class(n int) int {
	switch {
	case n > maxBody:
		return -1
	case n <= minBody:
		return 0
	}
	doublings := bits.Len(uint(n-1)) - bits.Len(uint(minBody))
	base := minBody << doublings
	return 1 + 4*doublings + (n-base-1)/(base/4)
}

// classSize is how many bytes a class holds.
func classSize(c int) int {
	if c == 0 {
		return minBody
	}
	base := minBody << ((c - 1) / 4)
	return base + ((c-1)%4+1)*(base/4)
}

// changeOverhead is about what a change takes besides its body: itself, its ticket, its identity and its place in a
// queue.
const changeOverhead = 256

// ChangeSize returns about what a change with a body of n bytes takes in memory. Small objects are much larger than
// their JSON.
func ChangeSize(n int) int {
	if c := class(n); c >= 0 {
		n = classSize(c)
	}
	return n + changeOverhead
}

// NewBody copies the parts, in order, into a body with one reference.
func NewBody(parts ...[]byte) *Body {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	b := allocBody(n)
	for _, p := range parts {
		b.data = append(b.data, p...)
	}
	b.refs.Store(1)
	return b
}

func allocBody(n int) *Body {
	c := class(n)
	if c < 0 {
		return &Body{data: make([]byte, 0, n)}
	}
	if b, ok := bodies[c].Get().(*Body); ok {
		b.data = b.data[:0]
		return b
	}
	return &Body{data: make([]byte, 0, classSize(c))}
}

// NewListBody copies an item of a list, as [rawjson.ReadList] gives it, into a body with one reference. Items of the
// API server's own types lack kind and apiVersion, which are put in front; one that the item has is left as it is.
//
// They are looked for among the members before metadata: API servers write kind, apiVersion and metadata first, or sort
// an object's members.
func NewListBody(raw []byte, res Resource) *Body {
	var space [256]byte
	return NewBody(rawjson.AppendHead(space[:0], raw, res.Kind, res.Group, res.Version), raw[1:])
}

// ListBodySize returns how many bytes the body of [NewListBody] holds.
func ListBodySize(raw []byte, res Resource) int {
	var space [256]byte
	return len(rawjson.AppendHead(space[:0], raw, res.Kind, res.Group, res.Version)) + len(raw[1:])
}
