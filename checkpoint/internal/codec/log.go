// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"cmp"
	"encoding/binary"
	"maps"
	"math"
	"slices"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

// AppendLog appends what is known of the log:
//
//	id       text
//	marks    their number; each the 32 bits of its partition and its place, in the order of partitions
//	ends     as marks
//	ids      their number; each the 32 bits of its partition and its text, in the order of partitions
//	given    uvarint
//	resyncs  uvarint
//	term     uvarint
//	new      1 if streams that are not stored are resynced, else nothing
//
// The same log gives the same bytes.
func AppendLog(b []byte, l *checkpoint.Log) []byte {
	b = appendPlaces(appendPlaces(AppendText(b, l.ID), l.Marks), l.Ends)
	b = appendMap(b, l.IDs, AppendText)
	b = binary.AppendUvarint(b, l.Given)
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(l.Resyncs)), uint64(l.Term))
	if l.ResyncNew {
		b = append(b, 1)
	}
	return b
}

func appendPlaces(b []byte, places map[int32]uint64) []byte {
	return appendMap(b, places, binary.AppendUvarint)
}

// appendMap appends how many entries m has, and these in the order of their partitions.
func appendMap[V any](b []byte, m map[int32]V, value func([]byte, V) []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(m)))
	for _, partition := range slices.SortedFunc(maps.Keys(m), byBits) {
		b = value(binary.AppendUvarint(b, uint64(uint32(partition))), m[partition])
	}
	return b
}

// byBits orders partitions by their 32 bits.
func byBits(a, b int32) int { return cmp.Compare(uint32(a), uint32(b)) }

// DecodeLog returns the log that all of b holds. It is what AppendLog was given, but that what was empty is nil.
func DecodeLog(b []byte) (l checkpoint.Log, err error) {
	d := NewDecoder(b)
	l.ID = d.Text()
	l.Marks, l.Ends = readMap(d, d.Uvarint), readMap(d, d.Uvarint)
	l.IDs = readMap(d, d.Text)
	l.Given = d.Uvarint()
	resyncs, term := d.Uvarint(), d.Uvarint()
	if len(d.Rest()) > 0 {
		l.ResyncNew = d.byte() == 1
		d.refuse(!l.ResyncNew)
	}
	if d.Done() != nil || max(resyncs, term) > math.MaxInt64 {
		return checkpoint.Log{}, errRest
	}
	l.Resyncs, l.Term = int64(resyncs), int64(term)
	return l, nil
}

// readMap reads what appendMap appended.
func readMap[V any](d *Decoder, value func() V) (m map[int32]V) {
	next := uint64(0)
	for n := d.Uvarint(); n > 0 && !d.bad; n-- {
		partition := d.Uvarint()
		if partition < next || partition > math.MaxUint32 {
			d.bad = true // there is one order
			return nil
		}
		if m == nil {
			m = map[int32]V{}
		}
		m[int32(uint32(partition))], next = value(), partition+1
	}
	return m
}
