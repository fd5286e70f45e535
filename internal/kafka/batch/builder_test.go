// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAppend_takes_a_batch_of_exactly_the_limit(t *testing.T) {
	// A value of 1 MB and its record have lengths of three bytes; all else about the record takes 5.
	full := Record{Value: make([]byte, DefaultLimit-Overhead-3-5-3)}
	var b Builder
	size := b.SizeWith(&full)
	require.Equal(t, DefaultLimit, size, "the record makes a batch of %d bytes", size)
	require.True(t, b.Append(&full, DefaultLimit), "a batch of the limit was refused")
	p := b.Seal(1, 0, 0)
	assert.Len(t, p, 1_048_588, "the batch has %d bytes", len(p))
	b.Reset(0)
	more := Record{Value: append(full.Value, 0)}
	assert.False(t, b.Append(&more, DefaultLimit), "a batch of one byte more than the limit was made")
	assert.False(t, b.Append(&full, DefaultLimit-1), "a batch of one byte more than the limit was made")
	assert.Equal(t, 0, b.Len(), "after a refusal the batch has %d records and %d bytes", b.Len(), b.Size())
	assert.Equal(t, Overhead, b.Size(), "after a refusal the batch has %d records and %d bytes", b.Len(), b.Size())
}

func TestAppend_refuses_what_the_protocol_cannot_say(t *testing.T) {
	// The header is no memory: all of it is the same megabyte.
	r := Record{Headers: make([]Header, 2048)}
	value := strings.Repeat("x", 1<<20)
	for i := range r.Headers {
		r.Headers[i].Value = value
	}
	var b Builder
	require.Greater(t, b.SizeWith(&r), math.MaxInt32, "the record is too small for this test")
	assert.False(t, b.Append(&r, math.MaxInt), "a batch of more than 2 GiB was made")
}

func TestAppend_copies_what_it_is_given(t *testing.T) {
	r := Record{Key: "k", Value: []byte("before"), Headers: []Header{{"name", "before"}}}
	var b Builder
	fill(t, &b, []Record{r})
	copy(r.Value, "after!")
	r.Headers[0].Value = "after"
	b.Seal(1, 0, 0)
	_, _, got := decode(t, b.Addressed(0)[4:])
	checkRecords(t, got, []Record{{Key: "k", Value: []byte("before"), Headers: []Header{{"name", "before"}}}})
}

func TestReset_makes_an_empty_batch(t *testing.T) {
	var fresh, used Builder
	fill(t, &used, samples(40))
	used.Compress(NewCodec(Zstd))
	used.Seal(7, 7, 7)
	for _, keep := range []int{1 << 20, 0} {
		used.Reset(keep)
		fresh.Reset(keep)
		require.Equal(t, 0, used.Len(), "records, %d bytes", used.Size())
		require.Equal(t, Overhead, used.Size(), "records, %d bytes", used.Size())
		late := []Record{{Key: "late", Timestamp: 5}, {Key: "later", Timestamp: 4}}
		fill(t, &used, late)
		fill(t, &fresh, late)
		assert.Equal(t, fresh.Seal(1, 0, 0), used.Seal(1, 0, 0), "a used builder makes other batches than a new one")
	}
}

func TestBuilder_keeps_no_more_memory_than_it_is_told(t *testing.T) {
	const limit = 100_000
	var b Builder
	for r := range repeat(samples(1)[0]) {
		if !b.Append(r, limit) {
			break
		}
	}
	b.Compress(NewCodec(Snappy))
	got := cap(b.plain)
	assert.LessOrEqual(t, got, limit+prefix, "a batch of at most %d bytes has %d bytes of memory", limit, got)
	b.Reset(limit + prefix)
	assert.NotEqual(t, 0, cap(b.plain), "memory that may be kept was let go")
	assert.NotEqual(t, 0, cap(b.packed), "memory that may be kept was let go")
	b.Reset(10)
	assert.Equal(t, 0, cap(b.plain), "memory that may not be kept was kept")
	assert.Equal(t, 0, cap(b.packed), "memory that may not be kept was kept")
}

func TestAppend_and_Seal_take_no_memory_in_the_long_run(t *testing.T) {
	var b Builder
	r := samples(1)[0]
	batch := func() {
		b.Reset(1 << 20)
		for b.Append(&r, 1<<18) {
		}
		b.Seal(1, 0, 0)
		binary.BigEndian.Uint32(b.Addressed(0)[4:])
	}
	n := testing.AllocsPerRun(20, batch)
	assert.True(t, n == 0, "%v allocations a batch", n)
}

func TestAppend_grows_a_new_batch_in_few_steps(t *testing.T) {
	r := samples(1)[0]
	fill := func() {
		var b Builder
		for b.Append(&r, DefaultLimit) {
		}
	}
	n := testing.AllocsPerRun(5, fill)
	assert.True(t, n <= 12, "%v allocations for a batch of 1 MiB", n)
}
