// SPDX-License-Identifier: Apache-2.0

package file

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestRow_is_decoded_as_it_was_encoded(t *testing.T) {
	const uid, epoch = "0f7d2a30-0c5b-4b8e-9a11-2f1f6f0f3b6d", 1_764_000_000
	for name, c := range map[string]struct {
		row  checkpoint.Row
		size int
	}{
		"nothing": {checkpoint.Row{}, 10},
		"a usual one": {checkpoint.Row{
			UID: uid, ResourceVersion: "48113000", Epoch: epoch, Version: 48113000, Sequence: 1 << 20,
		}, 34},
		"a tombstone": {checkpoint.Row{UID: uid, ResourceVersion: "1", Version: 1, Deleted: true}, 25},
		"an end that was missed": {checkpoint.Row{
			UID: uid, ResourceVersion: "1", Version: 48113000, Deleted: true,
		}, 29},
		"one that is behind": {checkpoint.Row{UID: uid, ResourceVersion: "1", Version: 1, Behind: true}, 26},
		"all flags": {checkpoint.Row{
			UID: uid, ResourceVersion: "1", Version: 1, Behind: true, Deleted: true, Rejected: true,
		}, 26},
		"the largest numbers": {checkpoint.Row{
			UID: uid, ResourceVersion: "18446744073709551615", Epoch: math.MaxUint64, Version: math.MaxUint64,
			Sequence: math.MaxUint64, Partition: math.MaxInt32,
		}, 56},
		"a version of its own": {checkpoint.Row{
			UID: uid, ResourceVersion: "18446744073709551615", Version: math.MaxUint64 - 1,
		}, 44},
		"no version":           {checkpoint.Row{UID: uid, ResourceVersion: "1"}, 26},
		"a negative partition": {checkpoint.Row{UID: uid, ResourceVersion: "1", Version: 1, Partition: -1}, 29},
		"a larger number":      {checkpoint.Row{UID: uid, ResourceVersion: "18446744073709551616"}, 45},
		"a number with zeros":  {checkpoint.Row{UID: uid, ResourceVersion: "007"}, 28},
		"a number with a sign": {checkpoint.Row{UID: uid, ResourceVersion: "+7"}, 27},
		"zero":                 {checkpoint.Row{UID: uid, ResourceVersion: "0"}, 26},
		"no number":            {checkpoint.Row{UID: uid, ResourceVersion: "v1-beta", Version: 300}, 34},
		"capitals in the uid":  {checkpoint.Row{UID: strings.ToUpper(uid), ResourceVersion: "1", Version: 1}, 46},
		"hyphens out of place": {checkpoint.Row{
			UID: "0f7d2a3-00c5b-4b8e-9a11-2f1f6f0f3b6d", ResourceVersion: "1", Version: 1,
		}, 46},
		"a hyphen for a digit":   {checkpoint.Row{UID: "-" + uid[1:], ResourceVersion: "1", Version: 1}, 46},
		"a uid of another shape": {checkpoint.Row{UID: "x", ResourceVersion: "1", Version: 1}, 11},
	} {
		t.Run(name, func(t *testing.T) {
			b := appendRow(nil, salt([]byte("pods.v1")), []byte("a/b"), &c.row)
			key, got := must.Get2(decodeRow(salt([]byte("pods.v1")), []byte("a/b"), b))(t)
			assert.True(t, key == "a/b" && got == c.row, "got %q %+v, want %+v", key, got, c.row)
			assert.Len(t, b, c.size, "bytes")
			assert.Error(t, must.Err(decodeRow(salt([]byte("pods.v1")), []byte("a/c"), b)),
				"taken for the row of another key")
			assert.Error(t, must.Err(decodeRow(salt([]byte("pods.v2")), []byte("a/b"), b)),
				"taken for the row of another stream")
		})
	}
}

func TestRow_is_decoded_with_one_allocation(t *testing.T) {
	key := []byte("kube-system/coredns-5d78c9869d-abcde")
	b := appendRow(nil, 1, key, &checkpoint.Row{
		UID: "0f7d2a30-0c5b-4b8e-9a11-2f1f6f0f3b6d", ResourceVersion: "48113000", Epoch: 1_764_000_000, Version: 48113000,
	})
	var err error
	n := testing.AllocsPerRun(100, func() { _, _, err = decodeRow(1, key, b) })
	require.NoError(t, err)
	assert.LessOrEqual(t, n, 1.0, "allocations")
}

// Whatever the bytes, decoding ends with an error or with a row that is encoded and decoded alike.
func FuzzRow(f *testing.F) {
	f.Add("a/b", appendRow(nil, 0, []byte("a/b"), &checkpoint.Row{
		UID: "0f7d2a30-0c5b-4b8e-9a11-2f1f6f0f3b6d", ResourceVersion: "48113000", Epoch: 1_764_000_000, Version: 48113000,
	}))
	f.Add("a", appendRow(nil, 0, []byte("a"), &checkpoint.Row{
		UID: "x", ResourceVersion: "y", Deleted: true,
		Partition: -1,
	}))
	f.Add("a", appendRow(nil, 0, []byte("a"), &checkpoint.Row{UID: "x", ResourceVersion: "y", Behind: true}))
	f.Add("", []byte{})
	f.Add("a", []byte{1 << 1, 1, 2, 3, 4, 5})
	f.Add("a", []byte{0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, key string, b []byte) {
		// With its own checksum, or hardly anything would get past it.
		if n := len(b) - sumSize; n >= 0 {
			b = seal([]byte(key), b[:n])
		}
		sum := salt([]byte(""))
		got, row, err := decodeRow(sum, []byte(key), b)
		if err != nil {
			return
		}
		again, same, err := decodeRow(sum, []byte(key), appendRow(nil, sum, []byte(key), &row))
		assert.True(t, err == nil && got == key && again == key && same == row, "%+v became %+v (%v)", row, same, err)
	})
}
