// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
)

var compressions = []Compression{None, Gzip, Snappy, Lz4, Zstd}

// text draws a string: most are short, some have a length around which the size of a varint changes, and some would fill blocks.
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

		id, epoch, sequence := rapid.Int64Min(-1).Draw(t, "id"), rapid.Int16Min(-1).Draw(t, "epoch"), rapid.Int32Min(-1).Draw(t, "sequence")
		p := bytes.Clone(b.Seal(id, epoch, sequence))
		if len(p) != announced || b.Size() != announced || announced > plain {
			t.Fatalf("%d bytes, announced were %d, uncompressed %d", len(p), announced, plain)
		}
		checkHeader(t, p, want)
		require.Equal(t, p, b.Addressed(7)[8:], "Addressed has another batch")
		read, attributes, got := decode(t, b.Addressed(0)[4:])
		checkRecords(t, got, want)
		if read.ProducerID != id || read.ProducerEpoch != epoch || read.BaseSequence != sequence {
			t.Fatalf("read id %d, epoch %d, sequence %d", read.ProducerID, read.ProducerEpoch, read.BaseSequence)
		}
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
