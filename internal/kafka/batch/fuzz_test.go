// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"encoding/binary"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"math"
	"strings"
	"testing"
)

// The data is a list of records of which only the sizes are said, in numbers of four bytes.
func FuzzAppend_never_exceeds_the_limit(f *testing.F) {
	word := func(n ...uint32) []byte {
		var p []byte
		for _, v := range n {
			p = binary.LittleEndian.AppendUint32(p, v)
		}
		return p
	}
	f.Add(1000, word(3, 900, 0, 0, 0))
	f.Add(1000, word(3, 1, 2, 62, 9, 3, 1, 2, 63, 9, 3, 1, 2, 64, 9))
	f.Add(DefaultLimit, word(10, 1_048_500, 0, 0, 0))
	f.Add(-1, word(0, 0, 0, 0, 0))
	f.Add(math.MaxInt, word(8190, 8191, 3, 8192, math.MaxUint32))

	f.Fuzz(func(t *testing.T, limit int, data []byte) {
		var b Builder
		size := Overhead
		for len(data) >= 20 && b.Len() < 1000 && b.Size() < 8<<20 {
			r := fuzzRecord(data)
			data = data[20:]
			announced := b.SizeWith(&r)
			require.Greater(t, announced, size, "another record makes %d of %d bytes", announced, size)
			took := b.Append(&r, limit)
			require.Equal(t, announced <= limit, took, "limit %d, announced %d, taken", limit, announced)
			if took {
				size = announced
			}
			if b.Size() != size || took && len(b.plain)-prefix != size {
				t.Fatalf("Size says %d, announced were %d, encoded are %d", b.Size(), size, len(b.plain)-prefix)
			}
			if cap(b.plain) > max(limit, 0)+prefix && limit < math.MaxInt32 {
				t.Fatalf("%d bytes of memory for a limit of %d", cap(b.plain), limit)
			}
		}
		if b.Len() > 0 && len(b.Seal(1, 0, 0)) != size {
			t.Fatalf("%d bytes were announced, %d sealed", size, len(b.Seal(1, 0, 0)))
		}
	})
}

func fuzzRecord(data []byte) Record {
	n := func(i int) int { return int(binary.LittleEndian.Uint32(data[4*i:])) }
	r := Record{Key: strings.Repeat("k", n(0)%70_000), Timestamp: int64(n(4)) << 20}
	if n(1)%7 != 0 {
		r.Value = make([]byte, n(1)%(3<<20))
	}
	for range n(2) % 70 {
		r.Headers = append(r.Headers, Header{"name", strings.Repeat("v", n(3)%20_000)})
	}
	return r
}

func FuzzSizeVarint_is_what_is_written(f *testing.F) {
	for _, n := range []int64{0, 1, -1, 63, 64, -64, -65, 8191, 8192, 1<<31 - 1, math.MaxInt64, math.MinInt64} {
		f.Add(n)
	}
	for bit := range 63 {
		f.Add(int64(1) << bit)
		f.Add(-(int64(1) << bit) - 1)
	}
	f.Fuzz(func(t *testing.T, n int64) {
		want := len(binary.AppendVarint(nil, n))
		assert.Equal(t, want, sizeVarint64(n), "%d takes %d bytes", n, want)
		assert.Len(t, appendVarint(nil, int(n)), want, "%d is written as", n)
	})
}
