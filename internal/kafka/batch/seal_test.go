// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"bytes"
	"github.com/stretchr/testify/assert"
	"math"
	"testing"
)

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
				if !mayDiffer && first[i] != second[i] {
					t.Fatalf("byte %d differs", i)
				}
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
