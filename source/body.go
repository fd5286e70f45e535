// SPDX-License-Identifier: Apache-2.0

package source

import (
	"math/bits"
	"sync"
	"sync/atomic"
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

// Retain adds a reference and returns b.
func (b *Body) Retain() *Body {
	if b != nil {
		b.refs.Add(1)
	}
	return b
}

// Release gives one reference back. Releasing nil does nothing.
func (b *Body) Release() {
	if b == nil {
		return
	}
	switch n := b.refs.Add(-1); {
	case n > 0:
	case n < 0:
		panic("BUG: body released twice")
	default:
		if c := class(cap(b.data)); c >= 0 && cap(b.data) == minBody<<c {
			bodies[c].Put(b)
		}
	}
}

// Bodies come in sizes of powers of two. Larger ones than maxBody are rare and left to the garbage collector.
const (
	minBody = 1 << 10
	maxBody = 1 << 17
)

// A pool per size class. It holds memory and no state, so one for the process is right.
var bodies [8]sync.Pool

// class returns the smallest class that holds n bytes, -1 for none.
func class(n int) int {
	if n > maxBody {
		return -1
	}
	if n <= minBody {
		return 0
	}
	return bits.Len(uint(n-1)) - bits.Len(uint(minBody-1))
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
	return &Body{data: make([]byte, 0, minBody<<c)}
}
