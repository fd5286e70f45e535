// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"bytes"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestCompress_writes_the_formats_that_Kafka_means(t *testing.T) {
	for _, c := range []struct {
		compression Compression
		starts      []byte
	}{
		{Gzip, []byte{0x1f, 0x8b, 8}},
		{Snappy, []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")},
		// The frame's magic; version 1, independent blocks; blocks of at most 64 KiB.
		{Lz4, []byte{0x04, 0x22, 0x4d, 0x18, 0x60, 0x40}},
		{Zstd, []byte{0x28, 0xb5, 0x2f, 0xfd}},
	} {
		var b Builder
		fill(t, &b, samples(500))
		plain := b.Size()
		assert.LessOrEqual(t, b.Compress(NewCodec(c.compression)), plain/2, "%s: %d bytes", c.compression, plain)
		if p := b.Seal(1, 0, 0); !bytes.HasPrefix(p[61:], c.starts) {
			t.Errorf("%s starts with %x", c.compression, p[61:81])
		}
	}
}

func TestCompress_tries_one_codec_after_another(t *testing.T) {
	var b Builder
	want := samples(30)
	fill(t, &b, want)
	plain := b.Size()
	for _, c := range append(compressions, compressions...) {
		size := b.Compress(NewCodec(c))
		assert.Equal(t, (c != None), size < plain, "%s: %d bytes became %d", c, plain, size)
	}
	b.Compress(nil)
	assert.Equal(t, plain, b.Size(), "without compression %d bytes", b.Size())
	b.Compress(NewCodec(Lz4))
	b.Seal(1, 0, 0)
	_, _, got := decode(t, b.Addressed(0)[4:])
	checkRecords(t, got, want)
}

func TestCompress_leaves_what_it_would_make_larger(t *testing.T) {
	noise := make([]byte, 200_000)
	must.Get(rand.NewChaCha8([32]byte{1}).Read(noise))(t)
	want := []Record{{Key: "k", Value: noise}}
	for _, c := range compressions {
		var b Builder
		fill(t, &b, want)
		plain := b.Size()
		assert.LessOrEqual(t, b.Compress(NewCodec(c)), plain, "%s: %d bytes", c, plain)
		b.Seal(1, 0, 0)
		_, _, got := decode(t, b.Addressed(0)[4:])
		checkRecords(t, got, want)
	}
}

func TestCompress_of_no_records_leaves_an_empty_batch(t *testing.T) {
	var b Builder
	size := b.Compress(NewCodec(Zstd))
	assert.True(t, size == Overhead && b.Size() == Overhead, "an empty batch has %d bytes", size)
}

func TestZstd_finds_what_is_most_of_a_batch_away(t *testing.T) {
	part := sampleValue(rand.New(rand.NewPCG(1, 1)), 900_000)
	want := []Record{{Key: "k", Value: bytes.Repeat(part, 8)}}
	var once Builder
	fill(t, &once, []Record{{Key: "k", Value: part}})
	limit := 5 * once.Compress(NewCodec(Zstd))
	var b Builder
	fill(t, &b, want)
	assert.LessOrEqual(t, b.Compress(NewCodec(Zstd)), limit, "%d bytes, want at most", len(want[0].Value))
	b.Seal(1, 0, 0)
	_, _, got := decode(t, b.Addressed(0)[4:])
	checkRecords(t, got, want)
}

func TestCodec_serves_many_with_few_encoders(t *testing.T) {
	for _, compression := range compressions[1:] {
		c := NewCodec(compression)
		var made atomic.Int64
		build := c.make
		c.make = func() encoder {
			made.Add(1)
			return build()
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		var written [][]byte
		var wanted [][]Record
		for i := range 8 {
			wg.Go(func() {
				var b Builder
				want := samples(20 + i)
				for range 10 {
					b.Reset(1 << 20)
					for k := range want {
						assert.True(t, b.Append(&want[k], 1<<30), "record %d was refused", k)
					}
					b.Compress(c)
					b.Seal(1, 0, 0)
					mu.Lock()
					written = append(written, slices.Clone(b.Addressed(0)[4:]))
					wanted = append(wanted, want)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		for i := range written {
			_, _, got := decode(t, written[i])
			checkRecords(t, got, wanted[i])
		}
		n := int(made.Load())
		assert.True(t, n >= 1 && n <= runtime.GOMAXPROCS(0), "%s: %d encoders were made", compression, n)
	}
}

func TestNewCodec_knows_the_names_and_no_others(t *testing.T) {
	require.Nil(t, NewCodec(None), "no compression has a codec")
	assert.Nil(t, NewCodec(""), "no compression has a codec")
	defer func() {
		assert.NotNil(t, recover(), "an unknown compression does not panic")
	}()
	NewCodec("brotli")
}

// What MemoryRecordsBuilder of kafka-clients 4.3.1 makes of goldenRecords, for producer 4711, epoch 3 and sequence
// 0x7ffffffe.
const golden = `
	0000000000000000  baseOffset
	000000a6          batchLength: 166 more bytes
	ffffffff          partitionLeaderEpoch -1
	02                magic
	7a6b5714          crc
	0000              attributes: no compression, CreateTime
	00000002          lastOffsetDelta
	0000018bcfe5687b  baseTimestamp 1700000000123
	0000018bcfe56be8  maxTimestamp 1700000001000
	0000000000001267  producerId 4711
	0003              producerEpoch
	7ffffffe          baseSequence: the records have 0x7ffffffe, 0x7fffffff and 0
	00000003          recordsCount

	a801 00 00 00     84 bytes, attributes, timestampDelta 0, offsetDelta 0
	3e 6b6c75737465722f636f72652f706f64732f64656661756c742f7765622d30  key: 31 bytes
	04 7b7d           value {}
	06                3 headers
	0a 63655f6964 02 31  ce_id: 1
	18 636f6e74656e742d74797065 20 6170706c69636174696f6e2f6a736f6e  content-type: application/json
	0a 656d707479 00  empty: empty

	0c 00 05 02       6 bytes, attributes, timestampDelta -3, offsetDelta 1
	00                empty key
	01                null value
	00                no headers

	2e 00 da0d 04     23 bytes, attributes, timestampDelta 877, offsetDelta 2
	02 6b             key k
	00                empty value
	02                1 header
	0e 6772c3b6c39f65 0c e697a5e69cac  größe: 日本
`

func goldenRecords() []Record {
	return []Record{
		{
			Key: "kluster/core/pods/default/web-0", Value: []byte("{}"), Timestamp: 1700000000123,
			Headers: []Header{{"ce_id", "1"}, {"content-type", "application/json"}, {"empty", ""}},
		},
		{Timestamp: 1700000000120},
		{Key: "k", Value: []byte{}, Timestamp: 1700000001000, Headers: []Header{{"größe", "日本"}}},
	}
}

func TestSeal_gives_the_bytes_that_Java_gives(t *testing.T) {
	var b Builder
	for _, r := range goldenRecords() {
		require.True(t, b.Append(&r, math.MaxInt), "a record was refused")
	}
	got, want := hex.EncodeToString(b.Seal(4711, 3, 0x7ffffffe)), goldenHex()
	assert.Equal(t, want, got)
}

// goldenHex is golden without the words, which stand behind two spaces.
func goldenHex() string {
	var s strings.Builder
	for line := range strings.Lines(golden) {
		digits, _, _ := strings.Cut(strings.TrimSpace(line), "  ")
		s.WriteString(strings.ReplaceAll(digits, " ", ""))
	}
	return s.String()
}

func TestSeal_again_changes_the_producer_and_the_crc_only(t *testing.T) {
	for _, c := range compressions {
		t.Run(string(c), func(t *testing.T) {
			var b Builder
			fill(t, &b, samples(50))
			b.Compress(NewCodec(c))
			first := bytes.Clone(b.Seal(1, 2, 3))
			second := b.Seal(math.MaxInt64, math.MaxInt16, math.MaxInt32)
			for i := range first {
				mayDiffer := 17 <= i && i < 21 || 43 <= i && i < 57
				require.True(t, mayDiffer || first[i] == second[i], "byte %d differs", i)
			}
			checkHeader(t, second, samples(50))
			assert.Equal(t, []byte("\x7f\xff\xff\xff\xff\xff\xff\xff\x7f\xff\x7f\xff\xff\xff"), second[43:57],
				"producer")
			assert.Equal(t, first, b.Seal(1, 2, 3), "the same seal gives other bytes")
		})
	}
}

// A record has its distance from the first one, so that only the header tells.
func TestRestamp_moves_all_timestamps_and_nothing_else(t *testing.T) {
	const by = 3_600_000
	for _, c := range compressions {
		t.Run(string(c), func(t *testing.T) {
			var b Builder
			fill(t, &b, samples(50))
			b.Compress(NewCodec(c))
			sent := b.Seal(1, 2, 3)
			before := bytes.Clone(sent)
			b.Restamp(b.Newest() - by)
			moved := samples(50)
			for i := range moved {
				moved[i].Timestamp -= by
			}
			after := b.Seal(1, 2, 3)
			checkHeader(t, after, moved)
			assert.Equal(t, before[atProducerID:], after[atProducerID:], "the producer or the records are others")
			assert.Equal(t, before, sent, "what was sent changed under the connection")
		})
	}
}

func TestSealed_batch_cannot_be_changed(t *testing.T) {
	sealed := func() *Builder {
		var b Builder
		fill(t, &b, samples(3))
		b.Seal(1, 0, 0)
		return &b
	}
	for name, change := range map[string]func(){
		"append":         func() { sealed().Append(&Record{}, math.MaxInt) },
		"compress":       func() { sealed().Compress(NewCodec(Gzip)) },
		"not compressed": func() { sealed().Compress(nil) },
		"empty":          func() { new(Builder).Seal(1, 0, 0) },
		"not sealed":     func() { new(Builder).Addressed(0) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				assert.NotNil(t, recover(), "it does not panic")
			}()
			change()
		})
	}
	b := sealed()
	assert.NotSame(t, &b.Seal(1, 0, 0)[0], &append(b.Seal(1, 0, 0), 1)[0],
		"who appends to a sealed batch writes into the builder's memory")
}

func TestNextSequence_goes_on_at_zero(t *testing.T) {
	for _, c := range []struct {
		base    int32
		records int
		want    int32
	}{
		{0, 0, 0},
		{0, 1, 1},
		{41, 500, 541},
		{math.MaxInt32 - 1, 1, math.MaxInt32},
		{math.MaxInt32, 1, 0},
		{math.MaxInt32 - 1, 3, 1},
		{math.MaxInt32, math.MaxInt32, math.MaxInt32 - 1},
	} {
		assert.Equal(t, c.want, NextSequence(c.base, c.records), "NextSequence(%d, %d)", c.base, c.records)
	}
}
