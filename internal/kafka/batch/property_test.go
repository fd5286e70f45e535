// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
)

var compressions = []Compression{None, Gzip, Snappy, Lz4, Zstd}

// text draws a string: most are short, some have a length around which the size of a varint changes, and some would
// fill blocks.
func text() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		s := rapid.StringN(-1, 12, -1).Draw(t, "text")
		if rapid.IntRange(0, 7).Draw(t, "long") > 0 {
			return s
		}
		n := rapid.SampledFrom([]int{63, 64, 127, 128, 4096, 8191, 8192, 70_000}).Draw(t, "length")
		return strings.Repeat(s+"x", n/len(s+"x")+1)[:n]
	})
}

func header() *rapid.Generator[Header] {
	return rapid.Custom(func(t *rapid.T) Header {
		return Header{Name: text().Draw(t, "name"), Value: text().Draw(t, "value")}
	})
}

func record() *rapid.Generator[Record] {
	return rapid.Custom(func(t *rapid.T) Record {
		r := Record{
			Key:       text().Draw(t, "key"),
			Timestamp: rapid.Int64Range(0, 1<<42).Draw(t, "timestamp"),
		}
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0: // null
		case 1:
			r.Value = []byte{}
		default:
			r.Value = append([]byte{}, text().Draw(t, "value")...)
		}
		if rapid.Bool().Draw(t, "headers") {
			r.Headers = rapid.SliceOfN(header(), 0, 5).Draw(t, "headers")
		}
		return r
	})
}

func records() *rapid.Generator[[]Record] {
	return rapid.Custom(func(t *rapid.T) []Record {
		some := rapid.SliceOfN(record(), 1, 8).Draw(t, "records")
		// Hundreds of records, of few kinds: it is their number that matters.
		if n := rapid.SampledFrom([]int{0, 0, 0, 63, 64, 65, 300}).Draw(t, "more"); n > 0 {
			for i := range n {
				r := some[i%len(some)]
				if len(r.Value) > 1000 {
					r.Value = r.Value[:1000]
				}
				r.Timestamp += int64(i)
				some = append(some, r)
			}
		}
		return some
	})
}

func TestMain(m *testing.M) {
	testtier.Draws()
	os.Exit(m.Run())
}

func TestBatch_is_read_as_it_was_written(t *testing.T) {
	codecs := map[Compression]*Codec{}
	for _, c := range compressions {
		codecs[c] = NewCodec(c)
	}
	var b Builder
	rapid.Check(t, func(t *rapid.T) {
		b.Reset(1 << 20)
		want := records().Draw(t, "records")
		fill(t, &b, want)
		plain := b.Size()
		c := rapid.SampledFrom(compressions).Draw(t, "compression")
		announced := b.Compress(codecs[c])

		id, epoch, sequence := rapid.Int64Min(-1).Draw(t, "id"), rapid.Int16Min(-1).Draw(t, "epoch"),
			rapid.Int32Min(-1).Draw(t, "sequence")
		p := bytes.Clone(b.Seal(id, epoch, sequence))
		require.True(t, len(p) == announced && b.Size() == announced && announced <= plain,
			"%d bytes, announced were %d, uncompressed %d", len(p), announced, plain)
		checkHeader(t, p, want)
		require.Equal(t, p, b.Addressed(7)[8:], "Addressed has another batch")
		read, attributes, got := decode(t, b.Addressed(0)[4:])
		checkRecords(t, got, want)
		require.True(t, read.ProducerID == id && read.ProducerEpoch == epoch && read.BaseSequence == sequence,
			"read id %d, epoch %d, sequence %d", read.ProducerID, read.ProducerEpoch, read.BaseSequence)
		// What compression makes larger stays as it is.
		wantAttributes := map[Compression]protocol.Attributes{None: 0, Gzip: 1, Snappy: 2, Lz4: 3, Zstd: 4}[c]
		if announced == plain {
			wantAttributes = 0
		}
		require.Equal(t, wantAttributes, attributes, "attributes")
	})
}

func TestAppend_after_Compress_undoes_it(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := records().Draw(t, "records")
		at := rapid.IntRange(0, len(want)).Draw(t, "at")
		c := NewCodec(rapid.SampledFrom(compressions).Draw(t, "compression"))
		var b Builder
		fill(t, &b, want[:at])
		b.Compress(c)
		for i := range want[at:] {
			size := b.SizeWith(&want[at+i])
			require.True(t, b.Append(&want[at+i], size), "record %d: %d bytes, announced", at+i, b.Size())
			require.Equal(t, size, b.Size(), "record %d: %d bytes, announced", at+i, b.Size())
		}
		b.Seal(1, 0, 0)
		_, _, got := decode(t, b.Addressed(0)[4:])
		checkRecords(t, got, want)
	})
}

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
			require.True(t, b.Size() == size && (!took || len(b.plain)-prefix == size),
				"Size says %d, announced were %d, encoded are %d", b.Size(), size, len(b.plain)-prefix)
			require.True(t, cap(b.plain) <= max(limit, 0)+prefix || limit >= math.MaxInt32,
				"%d bytes of memory for a limit of %d", cap(b.plain), limit)
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

// Computed by Utils.murmur2 and Utils.toPositive of kafka-clients 4.3.1.
var javaPartitions = []struct {
	key           string
	hash          int32
	of12, ofSeven int32
}{
	{"", 275646681, 9, 2},
	{"a", -1563381124, 4, 5},
	{"ab", 316155434, 2, 0},
	{"abc", 479470107, 3, 4},
	{"abcd", -1323649548, 8, 5},
	{"abcde", 461995741, 1, 4},
	{"21", -973932308, 0, 3},
	{"foobar", -790332482, 6, 0},
	{"a-little-bit-long-string", -985981536, 8, 1},
	{"a-little-bit-longer-string", -1486304829, 11, 0},
	{"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971, 5, 3},
	{"kluster/core/pods/default/web-0", -843339386, 6, 1},
	{"kluster/apps/deployments/kube-system/coredns", -2098712806, 10, 1},
	{"kluster/core/nodes/_/node-1", -213058759, 1, 5},
	{"prod-eu/example.com/databases/größe/日本語", 1561408654, 10, 1},
	{"\x00\x01\x7f", -684883218, 2, 4},
	{"ÿþ", -1869419400, 8, 0},
}

func TestPartition_is_that_of_Java(t *testing.T) {
	for _, c := range javaPartitions {
		assert.Equal(t, c.hash, Murmur2(c.key), "Murmur2(%q)", c.key)
		assert.Equal(t, c.of12, Partition(c.key, 12), "Partition(%q, 12)", c.key)
		assert.Equal(t, c.ofSeven, Partition(c.key, 7), "Partition(%q, 7)", c.key)
	}
}

func TestPartition_is_that_of_other_clients(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SliceOf(rapid.Byte()).Draw(t, "key")
		partitions := make([]int, rapid.IntRange(1, 500).Draw(t, "partitions"))
		for i := range partitions {
			partitions[i] = i
		}
		want := kafka.Murmur2Balancer{Consistent: true}.Balance(kafka.Message{Key: key}, partitions...)
		got := Partition(string(key), int32(len(partitions)))
		assert.Equal(t, want, int(got), "Partition(%q, %d) = %d", key, len(partitions), got)
	})
}

func TestPartition_of_no_partitions_panics(t *testing.T) {
	defer func() {
		assert.NotNil(t, recover(), "it does not panic")
	}()
	Partition("key", 0)
}
