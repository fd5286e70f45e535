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
//	id         text
//	losses     uvarint
//	marks      their number; each the 32 bits of its partition and its sequence, in the order of partitions
//	trail      the number of waypoints; each its marks, the number of its ids, these as partition and id in
//	          the order of partitions, the number of its positions, and these as name and position in the order of names
//	epoch      uvarint; not there where it and what follows are 0
//	histories  uvarint; not there where it is 0
//
// The same log gives the same bytes.
func AppendLog(b []byte, l *checkpoint.Log) []byte {
	b = appendMarks(binary.AppendUvarint(AppendText(b, l.ID), uint64(l.Losses)), l.Marks)
	b = binary.AppendUvarint(b, uint64(len(l.Trail)))
	for _, w := range l.Trail {
		b = appendMap(appendMarks(b, w.Marks), w.IDs, appendPartition, AppendText)
		b = appendMap(b, w.Positions, AppendText, AppendText)
	}
	if l.Epoch != 0 || l.Histories != 0 {
		b = binary.AppendUvarint(b, uint64(l.Epoch))
	}
	if l.Histories != 0 {
		b = binary.AppendUvarint(b, uint64(l.Histories))
	}
	return b
}

func appendMarks(b []byte, marks map[int32]uint64) []byte {
	return appendMap(b, marks, appendPartition, binary.AppendUvarint)
}

func appendPartition(b []byte, partition int32) []byte {
	return binary.AppendUvarint(b, uint64(uint32(partition)))
}

// appendMap appends how many entries m has, and these in the order of their keys.
func appendMap[K cmp.Ordered, V any](b []byte, m map[K]V, key func([]byte, K) []byte, value func([]byte, V) []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(m)))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		b = value(key(b, k), m[k])
	}
	return b
}

// DecodeLog returns the log that all of b holds. It is what AppendLog was given, but that what was empty is nil.
func DecodeLog(b []byte) (l checkpoint.Log, err error) {
	d := NewDecoder(b)
	l.ID = d.Text()
	losses := d.Uvarint()
	l.Marks = readMap(d, d.partition, d.Uvarint)
	for n := d.Uvarint(); n > 0 && !d.bad; n-- {
		l.Trail = append(l.Trail, checkpoint.Waypoint{
			Marks: readMap(d, d.partition, d.Uvarint), IDs: readMap(d, d.partition, d.Text), Positions: readMap(d, d.Text, d.Text),
		})
	}
	var epoch, histories uint64
	if len(d.rest) > 0 {
		epoch = d.Uvarint()
		if len(d.rest) > 0 {
			histories = d.Uvarint()
		}
		d.bad = d.bad || histories == 0 && (epoch == 0 || len(d.rest) > 0)
	}
	if d.Done() != nil || losses > math.MaxInt || epoch > math.MaxInt64 || histories > math.MaxInt {
		return checkpoint.Log{}, errRest
	}
	l.Losses, l.Epoch, l.Histories = int(losses), int64(epoch), int(histories)
	return l, nil
}

func (d *Decoder) partition() int32 {
	n := d.Uvarint()
	d.bad = d.bad || n > math.MaxUint32
	return int32(uint32(n))
}

// readMap reads what appendMap appended.
func readMap[K comparable, V any](d *Decoder, key func() K, value func() V) (m map[K]V) {
	for n := d.Uvarint(); n > 0 && !d.bad; n-- {
		if m == nil {
			m = map[K]V{}
		}
		k := key()
		m[k] = value()
	}
	return m
}
