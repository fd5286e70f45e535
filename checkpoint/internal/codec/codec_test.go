// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"encoding/hex"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
)

var streams = map[string]checkpoint.Stream{
	"nothing": {},
	"everything": {
		Position: "48113000", Fingerprint: "f", Epoch: 1_764_000_001, Since: 1_764_000_000, Counter: 5,
		Owes: checkpoint.Owes{
			List: sequence.Repair, From: "0", Version: "12", Cause: "log-lost", Message: "größe\x00", Number: 1_764_000_002,
		},
		Unannounced: checkpoint.Snapshot{ResourceVersion: "17", Objects: 1 << 40}, Announced: "snapshot.17",
		Resynced: 1_764_000_000, ResyncDue: true, Retiring: true,
		Kind: "Pod", Namespaced: true, Called: []string{"po", "pods"}, Entered: "9",
		Refused: []checkpoint.Refused{{Key: "a/b", Changes: 1}, {Key: "c", Changes: 1 << 40}},
		Floors:  []sequence.Floor{{Namespace: "a", Position: 5}, {Position: 1 << 60}},
		Replay:  checkpoint.Replay{To: "99", Number: 1_764_000_003},
	},
	"the largest numbers": {
		Epoch: math.MaxUint64, Since: math.MaxUint64, Counter: math.MaxUint64,
		Owes: checkpoint.Owes{Number: math.MaxInt64}, Unannounced: checkpoint.Snapshot{Objects: math.MaxInt},
		Resynced: math.MaxInt64, Replay: checkpoint.Replay{Number: math.MaxInt64},
	},
}

const uid = "0f7d2a30-0c5b-4b8e-9a11-2f1f6f0f3b6d"

// A field that a store forgets is one that a restart forgets.
func TestNo_field_is_left_out(t *testing.T) {
	var stream checkpoint.Stream
	fill(t, reflect.ValueOf(&stream).Elem())
	assert.Equal(t, stream, must.Get(DecodeStream(AppendStream(nil, &stream)))(t))
	var row checkpoint.Row
	fill(t, reflect.ValueOf(&row).Elem())
	row.Fresh = false // is not stored
	_, got, err := DecodeRow(nil, AppendRow(nil, &row))
	assert.True(t, err == nil && got == row, "got %+v, want %+v (%v)", got, row, err)
	var log checkpoint.Log
	fill(t, reflect.ValueOf(&log).Elem())
	assert.Equal(t, log, must.Get(DecodeLog(AppendLog(nil, &log)))(t))
	var id checkpoint.Identity
	fill(t, reflect.ValueOf(&id).Elem())
	assert.Equal(t, id, NewDecoder(AppendIdentity(nil, id)).Identity())
}

// fill sets v, and all that it consists of, to something.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint64, reflect.Uint32:
		v.SetUint(7)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint(uint64(sequence.Repair)) // there is no greater list
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key)
		fill(t, value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	default:
		t.Fatalf("the test does not know %s", v.Kind())
	}
}

func TestStream_is_decoded_as_it_was_encoded(t *testing.T) {
	for name, want := range streams {
		b := AppendStream(nil, &want)
		assert.Equal(t, want, must.Get(DecodeStream(b))(t), name)
		for n := range b {
			if got, err := DecodeStream(b[:n]); err == nil || !got.Equal(&checkpoint.Stream{}) {
				t.Errorf("%s: %d of %d bytes are %+v (%v)", name, n, len(b), got, err)
			}
		}
		assert.Error(t, must.Err(DecodeStream(append(b, 0))), "%s: one byte more is taken", name)
	}
}

func TestIdentity_is_decoded_as_it_was_encoded(t *testing.T) {
	want := checkpoint.Identity{ClusterUID: "5f7d2a30", Cluster: "prod-eu-1", Pipeline: ""}
	b := AppendIdentity(nil, want)
	d := NewDecoder(b)
	got := d.Identity()
	assert.True(t, got == want && d.Done() == nil && len(d.Rest()) == 0, "got %+v, want %+v (%v)", got, want, d.Done())
	d = NewDecoder(b[:len(b)-1])
	_ = d.Identity()
	assert.True(t, d.Bad() && d.Done() != nil, "a part of it is taken")
}

// Whatever the bytes, decoding ends, with an error or with a value of which they are the only form.
func FuzzStream(f *testing.F) {
	for _, s := range streams {
		f.Add(AppendStream(nil, &s))
	}
	f.Add([]byte{0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := DecodeStream(b); err == nil {
			assert.Equal(t, b, AppendStream(nil, &got), "%+v has two forms", got)
		}
	})
}

func FuzzLog(f *testing.F) {
	f.Add(AppendLog(nil, &checkpoint.Log{}))
	f.Add(AppendLog(nil, &checkpoint.Log{
		ID: "l", Marks: map[int32]uint64{0: 1 << 40, 7: 3, -1: 1},
		Ends: map[int32]uint64{0: 5}, IDs: map[int32]string{0: "u.1.2.0", 3: ""},
		Given: 1_764_000_000, Resyncs: math.MaxInt64, Term: 3,
	}))
	f.Add([]byte{0, 1, 0xff, 0xff, 0xff, 0xff, 0x1f, 1, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := DecodeLog(b); err == nil {
			assert.Equal(t, b, AppendLog(nil, &got), "%+v has two forms", got)
		}
	})
}

func FuzzRow(f *testing.F) {
	for _, r := range []checkpoint.Row{
		{},
		{UID: uid, ResourceVersion: "48113000", Epoch: 1_764_000_000, Version: 48113000, Sequence: 7},
		{UID: "x", ResourceVersion: "y", Version: 4},
		{
			UID: uid, ResourceVersion: "5", Version: 6, Deleted: true, Behind: true, Rejected: true, Partition: -1,
			Digest: [16]byte{1}, Form: 9,
		},
	} {
		f.Add(AppendRow(nil, &r))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if key, got, err := DecodeRow([]byte("a/b"), b); err == nil {
			assert.Equal(t, "a/b", key)
			assert.Equal(t, b, AppendRow(nil, &got), "%+v has two forms", got)
		}
	})
}

// These bytes mean the same as others, or nothing.
func TestDecode_refuses_another_form(t *testing.T) {
	const row = "\x04\x01u\x05\x07\x00\x00"
	for name, c := range map[string]struct {
		good, bad string
		decode    func([]byte) error
	}{
		"a number with a leading zero": {"\x00\x00\x00\x00\x00\x00", "\x00\x00\x80\x00\x00\x00\x00", streamError},
		"a flag for nothing":           {"\x00\x00\x00\x00\x00\x00", "\x00\x00\x00\x00\x00\x20\x00", streamError},
		"a flag of another version":    {"\x00\x00\x00\x00\x00\x01", "\x00\x00\x00\x00\x00\x81\x40", streamError},
		"a list of another version": {
			"\x00\x00\x00\x00\x00\x08\x04\x00\x00\x00\x00\x00", "\x00\x00\x00\x00\x00\x08\x05\x00\x00\x00\x00\x00", streamError,
		},
		"partitions out of order": {
			"\x00\x02\x01\x07\x02\x07\x00\x00\x00\x00\x00", "\x00\x02\x02\x07\x01\x07\x00\x00\x00\x00\x00", logError,
		},
		"a partition twice": {
			"\x00\x02\x01\x07\x02\x07\x00\x00\x00\x00\x00", "\x00\x02\x01\x07\x01\x07\x00\x00\x00\x00\x00", logError,
		},
		"a term that is negative": {
			"\x00\x00\x00\x00\x00\x00\x01", "\x00\x00\x00\x00\x00\x00" + strings.Repeat("\x80", 9) + "\x01", logError,
		},
		"what is not said of the log": {
			"\x00\x00\x00\x00\x00\x00\x01\x01", "\x00\x00\x00\x00\x00\x00\x01\x00", logError,
		},
		"a uid that can be packed":        {row, "\x04\x24" + uid + "\x05\x07\x00\x00", rowError},
		"a version that is a number":      {"\x00\x01u\x01x\x07\x00\x00", "\x00\x01u\x015\x07\x00\x00", rowError},
		"a version of zero":               {row, "\x04\x01u\x00\x07\x00\x00", rowError},
		"the number of the version again": {"\x0c\x01u\x05\x07\x06\x00\x00", "\x0c\x01u\x05\x07\x05\x00\x00", rowError},
		"no digest": {
			"\x14\x01u\x05\x07\x00\x00" + strings.Repeat("\x01", 16),
			"\x14\x01u\x05\x07\x00\x00" + strings.Repeat("\x00", 16), rowError,
		},
		"no form": {
			"\x24\x01u\x05\x07\x00\x00\x01\x00\x00\x00", "\x24\x01u\x05\x07\x00\x00\x00\x00\x00\x00", rowError,
		},
		"no more flags":                 {"\x44\x01\x01u\x05\x07\x00\x00", "\x44\x00\x01u\x05\x07\x00\x00", rowError},
		"more flags of another version": {"\x44\x03\x01u\x05\x07\x00\x00", "\x44\x04\x01u\x05\x07\x00\x00", rowError},
		"a row of another version":      {row, "\x84\x01u\x05\x07\x00\x00", rowError},
	} {
		assert.NoError(t, c.decode([]byte(c.good)), "%s: the form that is", name)
		assert.Error(t, c.decode([]byte(c.bad)), "%s", name)
	}
}

func streamError(b []byte) error { _, err := DecodeStream(b); return err }
func logError(b []byte) error    { _, err := DecodeLog(b); return err }
func rowError(b []byte) error    { _, _, err := DecodeRow([]byte("a/b"), b); return err }

// These bytes are format 2. Another form is another format.
func TestBytes_are_those_that_stores_have(t *testing.T) {
	var stream checkpoint.Stream
	fill(t, reflect.ValueOf(&stream).Elem())
	var log checkpoint.Log
	fill(t, reflect.ValueOf(&log).Elem())
	log.Marks[300] = 1 << 40
	var row checkpoint.Row
	fill(t, reflect.ValueOf(&row).Elem())
	usual := checkpoint.Row{
		UID: uid, ResourceVersion: "48113000", Epoch: 1_764_000_000, Version: 48113000, Sequence: 7, Partition: 1,
	}
	for what, c := range map[string]struct {
		got  []byte
		want string
	}{
		"a stream": {
			AppendStream(nil, &stream),
			"01780178070707ffff01040178017801780178070178070178070178070178010178017801017807010178017807",
		},
		"a stream of nothing": {AppendStream(nil, &checkpoint.Stream{}), "000000000000"},
		"a log":               {AppendLog(nil, &log), "0178020707ac028080808080200107070107017807070701"},
		"a log of nothing":    {AppendLog(nil, &checkpoint.Log{}), "00000000000000"},
		"a row":               {AppendRow(nil, &row), "79070178017807070707040404040404040404040404040404040700000007"},
		"a usual row":         {AppendRow(nil, &usual), "060f7d2a300c5b4b8e9a112f1f6f0f3b6de8caf816808292c9060701"},
	} {
		assert.Equal(t, c.want, hex.EncodeToString(c.got), "%s is written as", what)
	}
}
