// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"slices"
	"testing"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// fill appends records that a limit does not refuse.
func fill(t must.TB, b *Builder, records []Record) {
	t.Helper()
	for i := range records {
		want := b.SizeWith(&records[i])
		if !b.Append(&records[i], 1<<30) {
			t.Fatalf("record %d was refused", i)
		}
		if b.Size() != want || b.Len() != i+1 {
			t.Fatalf("after record %d: %d bytes and %d records, announced were %d bytes", i, b.Size(), b.Len(), want)
		}
	}
}

// decode reads what Sized returned with kafka-go.
func decode(t must.TB, sized []byte) (*protocol.RecordBatch, protocol.Attributes, []Record) {
	t.Helper()
	var set protocol.RecordSet
	if n, err := set.ReadFrom(bufio.NewReader(bytes.NewReader(sized))); err != nil || n != int64(len(sized)) {
		t.Fatalf("read %d of %d bytes: %v", n, len(sized), err)
	}
	stream := set.Records.(*protocol.RecordStream)
	if len(stream.Records) != 1 {
		t.Fatalf("%d batches were read", len(stream.Records))
	}
	read := stream.Records[0].(*protocol.RecordBatch)
	var records []Record
	for {
		r, err := read.ReadRecord()
		if errors.Is(err, io.EOF) {
			return read, set.Attributes, records
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.Offset != int64(len(records)) {
			t.Fatalf("record %d has the offset %d", len(records), r.Offset)
		}
		records = append(records, recordOf(t, r))
	}
}

func recordOf(t must.TB, r *protocol.Record) Record {
	t.Helper()
	if r.Key == nil {
		t.Fatal("a record has a null key")
	}
	key := must.Get(protocol.ReadAll(r.Key))(t)
	out := Record{Key: string(key), Timestamp: r.Time.UnixMilli()}
	if r.Value != nil {
		out.Value = must.Get(protocol.ReadAll(r.Value))(t)
	}
	for _, h := range r.Headers {
		if h.Value == nil {
			t.Fatalf("header %q is null", h.Key)
		}
		out.Headers = append(out.Headers, Header{h.Key, string(h.Value)})
	}
	return out
}

// same compares records; no headers and an empty slice of headers are the same, a null value and an empty one are not.
func same(a, b Record) bool {
	return a.Key == b.Key && (a.Value == nil) == (b.Value == nil) && bytes.Equal(a.Value, b.Value) &&
		slices.Equal(a.Headers, b.Headers) && a.Timestamp == b.Timestamp
}

func checkRecords(t must.TB, got, want []Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records were read, want %d", len(got), len(want))
	}
	for i := range want {
		if !same(got[i], want[i]) {
			t.Fatalf("record %d is\n%+v\nwant\n%+v", i, got[i], want[i])
		}
	}
}

// checkHeader looks at the fields of which kafka-go's reader does not tell.
func checkHeader(t must.TB, p []byte, records []Record) {
	t.Helper()
	be := binary.BigEndian
	if got := int(be.Uint32(p[8:])) + 12; got != len(p) {
		t.Fatalf("batchLength says %d bytes, there are %d", got, len(p))
	}
	if got, want := be.Uint32(p[17:]), crc32.Checksum(p[21:], crc32.MakeTable(0x82f63b78)); got != want {
		t.Fatalf("crc %08x, want %08x", got, want)
	}
	newest := records[0].Timestamp
	for _, r := range records {
		newest = max(newest, r.Timestamp)
	}
	for _, f := range []struct {
		name      string
		got, want int64
	}{
		{"baseOffset", int64(be.Uint64(p)), 0},
		{"partitionLeaderEpoch", int64(int32(be.Uint32(p[12:]))), -1},
		{"magic", int64(p[16]), 2},
		{"lastOffsetDelta", int64(be.Uint32(p[23:])), int64(len(records) - 1)},
		{"baseTimestamp", int64(be.Uint64(p[27:])), records[0].Timestamp},
		{"maxTimestamp", int64(be.Uint64(p[35:])), newest},
		{"recordsCount", int64(be.Uint32(p[57:])), int64(len(records))},
	} {
		if f.got != f.want {
			t.Fatalf("%s %d, want %d", f.name, f.got, f.want)
		}
	}
}

func TestSame_tells_null_from_empty(t *testing.T) {
	assert.False(t, same(Record{}, Record{Value: []byte{}}), "the tests do not compare what they should")
	assert.True(t, same(Record{}, Record{Headers: []Header{}}), "the tests do not compare what they should")
}
