// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
	if size := b.Compress(NewCodec(Zstd)); size != Overhead || b.Size() != Overhead {
		t.Errorf("an empty batch has %d bytes", size)
	}
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
		for i := range 8 {
			wg.Go(func() {
				var b Builder
				want := samples(20 + i)
				for range 10 {
					b.Reset(1 << 20)
					fill(t, &b, want)
					b.Compress(c)
					b.Seal(1, 0, 0)
					_, _, got := decode(t, b.Addressed(0)[4:])
					checkRecords(t, got, want)
				}
			})
		}
		wg.Wait()
		if n := int(made.Load()); n < 1 || n > runtime.GOMAXPROCS(0) {
			t.Errorf("%s: %d encoders were made", compression, n)
		}
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
