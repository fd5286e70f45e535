// SPDX-License-Identifier: Apache-2.0

package file

import (
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLog_has_the_same_bytes_whenever_it_is_the_same(t *testing.T) {
	want := encodeLog(logOf(7))
	for range 20 {
		require.Equal(t, want, encodeLog(logOf(7)), "the order of a map is in the file")
	}
	got := must.Get(decodeLog(want))(t)
	assert.Equal(t, logOf(7), &got, "decoded as %+v", got)
}

// Whatever the bytes, decoding ends, with an error or with a log that is encoded and decoded alike.
func FuzzLog(f *testing.F) {
	for _, l := range []*checkpoint.Log{{}, logOf(1), {Marks: map[int32]uint64{-1: 1}, Losses: 1}} {
		b := encodeLog(l)
		f.Add(b[:len(b)-sumSize])
	}
	f.Add([]byte{0, 1, 0xff, 0xff, 0xff, 0xff, 0x1f, 1, 0})
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decodeLog(seal(keyLog, b))
		if err != nil {
			return
		}
		again := must.Get(decodeLog(encodeLog(&got)))(t)
		assert.Equal(t, got, again)
	})
}
