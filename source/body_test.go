// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestClass_is_the_smallest_that_holds_the_size(t *testing.T) {
	for n := range maxBody + 1 {
		c := class(n)
		require.GreaterOrEqual(t, c, 0, "%d bytes: class", n)
		require.Less(t, c, len(bodies), "%d bytes: class", n)
		require.True(t, classSize(c) >= n && (c <= 0 || classSize(c-1) < n) && (n <= minBody || classSize(c) <= n+n/4),
			"%d bytes: class %d, of %d bytes", n, c, classSize(c))
	}
	for _, n := range []int{maxBody + 1, maxBody * 2, 1 << 30} {
		assert.Equal(t, -1, class(n), "%d bytes: class", n)
	}
	assert.Equal(t, len(bodies)-1, class(maxBody), "%d classes, and the largest body is of class", len(bodies))
}

// Otherwise a buffer of small objects would hold many times the memory that it is bounded to.
func TestHeld_is_not_less_than_what_a_change_takes_in_memory(t *testing.T) {
	for _, n := range []int{0, 1, 100, minBody, minBody + 1, 5000, maxBody, maxBody + 1, 1 << 20} {
		body := NewBody(make([]byte, n))
		assert.GreaterOrEqual(t, ChangeSize(n), cap(body.data)+int(unsafe.Sizeof(*body)+unsafe.Sizeof(Change{})),
			"a change of %d bytes, %d are bought for it", n, ChangeSize(n))
		body.Release()
	}
}

func TestNewBody_joins_copies_of_its_parts(t *testing.T) {
	for _, size := range []int{
		0, 1, minBody - 1, minBody, minBody + 1, 2*minBody - 1, 2 * minBody, 2*minBody + 1,
		maxBody - 1, maxBody, maxBody + 1,
	} {
		whole := bytes.Repeat([]byte("0123456789abcde"), size/15+1)[:size]
		parts := [][]byte{bytes.Clone(whole[:size/3]), nil, bytes.Clone(whole[size/3:])}
		// Twice: the second may be memory that was used before.
		for range 2 {
			b := NewBody(parts...)
			for _, p := range parts {
				clear(p)
			}
			require.Equal(t, whole, b.Bytes(), "%d bytes: got %d others", size, len(b.Bytes()))
			if c := class(size); c >= 0 && cap(b.data) != classSize(c) || c < 0 && cap(b.data) > size*5/4 {
				t.Errorf("%d bytes take %d", size, cap(b.data))
			}
			b.Release()
			parts = [][]byte{bytes.Clone(whole)}
		}
	}
}

func TestBody_nil_is_an_empty_body(t *testing.T) {
	var b *Body
	require.Nil(t, b.Retain(), "nil became something")
	assert.Nil(t, b.Bytes(), "nil became something")
	b.Release()
}

func TestBody_is_used_again_only_after_its_last_release(t *testing.T) {
	want := []byte(`{"kept":true}`)
	b := NewBody(want)
	for range 3 {
		b.Retain()
	}
	for range 3 {
		b.Release()
		for range 100 {
			other := NewBody([]byte("another"))
			require.NotSame(t, b, other, "a body that is still referenced was given out")
			other.Release()
		}
		require.Equal(t, want, b.Bytes())
	}
	b.Release()
}

func TestBody_panics_when_references_are_miscounted(t *testing.T) {
	panics := func(name string, f func(b *Body)) {
		t.Helper()
		// Too large for a pool: the next owner of its memory would count again.
		b := NewBody(make([]byte, maxBody+1))
		b.Release()
		defer func() {
			assert.NotNil(t, recover(), "no panic from %s", name)
		}()
		f(b)
	}
	panics("a second Release", func(b *Body) { b.Release() })
	panics("Retain after the last Release", func(b *Body) { b.Retain() })
}

func TestBody_may_be_shared_by_goroutines(t *testing.T) {
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 300 {
				want := bytes.Repeat(fmt.Appendf(nil, "%d.%d,", g, i), i*7+1)
				b := NewBody(want)
				var readers sync.WaitGroup
				for range 3 {
					b.Retain()
					readers.Go(func() {
						assert.Equal(t, want, b.Bytes(), "a body was changed while it was referenced")
						b.Release()
					})
				}
				b.Release()
				readers.Wait()
			}
		})
	}
	all.Wait()
}
