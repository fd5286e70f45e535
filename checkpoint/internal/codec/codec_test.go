// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"encoding/hex"
	"math"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

var streams = map[string]checkpoint.Stream{
	"nothing": {},
	"everything": {
		Position: "48113000", Fingerprint: "f", History: 3, Unannounced: checkpoint.Snapshot{ResourceVersion: "17", Objects: 1 << 40},
		Announced: "snapshot.17", Gap: checkpoint.Gap{From: "0", Cause: "größe\x00"}, Repair: "12", Resynced: 1_764_000_000,
	},
	"the largest numbers": {History: math.MaxInt, Unannounced: checkpoint.Snapshot{Objects: math.MaxInt}, Resynced: math.MaxInt64},
}

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
		v.SetUint(7)
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
			if got, err := DecodeStream(b[:n]); err == nil || got != (checkpoint.Stream{}) {
				t.Errorf("%s: %d of %d bytes are %+v (%v)", name, n, len(b), got, err)
			}
		}
		assert.Error(t, must.Err(DecodeStream(append(b, 0))), "%s: one byte more is taken", name)
	}
}

// What was written before there were resyncs ends where the flags do.
func TestStream_of_an_older_version_is_read(t *testing.T) {
	for alone := range byte(2) {
		got, err := DecodeStream([]byte{1, '5', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, alone})
		want := (checkpoint.Stream{Position: "5", Alone: alone == 1})
		assert.True(t, err == nil && got == want, "got %+v, want %+v (%v)", got, want, err)
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

// Whatever the bytes, decoding ends, with an error or with a stream that is encoded and decoded alike.
func FuzzStream(f *testing.F) {
	for _, s := range streams {
		f.Add(AppendStream(nil, &s))
	}
	f.Add([]byte{0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := DecodeStream(b)
		if err != nil {
			return
		}
		again := must.Get(DecodeStream(AppendStream(nil, &got)))(t)
		assert.Equal(t, got, again)
	})
}

// What a bridge has written is what the next version of it reads: these bytes do not change. What is new comes behind them, with a flag of its own.
func TestBytes_are_those_that_stores_have(t *testing.T) {
	var stream checkpoint.Stream
	fill(t, reflect.ValueOf(&stream).Elem())
	var log checkpoint.Log
	fill(t, reflect.ValueOf(&log).Elem())
	log.Marks[300] = 1 << 40
	before := log
	before.Epoch, before.Histories = 0, 0
	for what, c := range map[string]struct {
		got  []byte
		want string
	}{
		"a stream":            {AppendStream(nil, &stream), "017801780701780701780178017801780178017801787f070178070178017801780178"},
		"a stream of nothing": {AppendStream(nil, &checkpoint.Stream{}), "00000000000000000000000000"},
		"a log before":        {AppendLog(nil, &before), "017807020707ac0280808080802001010707010701780101780178"},
		"a log":               {AppendLog(nil, &log), "017807020707ac02808080808020010107070107017801017801780707"},
	} {
		assert.Equal(t, c.want, hex.EncodeToString(c.got), "%s is written as", what)
	}
}
