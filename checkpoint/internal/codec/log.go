// SPDX-License-Identifier: Apache-2.0

package codec

import (
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
//
// The same log gives the same bytes.
func AppendLog(b []byte, l *checkpoint.Log) []byte {
	b = appendMarks(binary.AppendUvarint(AppendText(b, l.ID), uint64(l.Losses)), l.Marks)
	b = binary.AppendUvarint(b, uint64(len(l.Trail)))
	for _, w := range l.Trail {
		b = appendIDs(appendMarks(b, w.Marks), w.IDs)
		b = binary.AppendUvarint(b, uint64(len(w.Positions)))
		for _, name := range slices.Sorted(maps.Keys(w.Positions)) {
			b = AppendText(AppendText(b, name), w.Positions[name])
		}
	}
	return b
}

func appendMarks(b []byte, marks map[int32]uint64) []byte {
	b = binary.AppendUvarint(b, uint64(len(marks)))
	for _, partition := range slices.Sorted(maps.Keys(marks)) {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(uint32(partition))), marks[partition])
	}
	return b
}

func appendIDs(b []byte, ids map[int32]string) []byte {
	b = binary.AppendUvarint(b, uint64(len(ids)))
	for _, partition := range slices.Sorted(maps.Keys(ids)) {
		b = AppendText(binary.AppendUvarint(b, uint64(uint32(partition))), ids[partition])
	}
	return b
}

// DecodeLog returns the log that all of b holds. It is what AppendLog was given, but that what was empty is nil.
func DecodeLog(b []byte) (l checkpoint.Log, err error) {
	d := NewDecoder(b)
	l.ID = d.Text()
	losses := d.Uvarint()
	l.Marks = d.marks()
	for n := d.Uvarint(); n > 0 && !d.bad; n-- {
		l.Trail = append(l.Trail, checkpoint.Waypoint{Marks: d.marks(), IDs: d.ids(), Positions: d.positions()})
	}
	if d.Done() != nil || losses > math.MaxInt {
		return checkpoint.Log{}, errRest
	}
	l.Losses = int(losses)
	return l, nil
}

func (d *Decoder) marks() (marks map[int32]uint64) {
	for n := d.Uvarint(); n > 0 && !d.bad; n-- {
		if marks == nil {
			marks = map[int32]uint64{}
		}
		partition := d.Uvarint()
		d.bad = d.bad || partition > math.MaxUint32
		marks[int32(uint32(partition))] = d.Uvarint()
	}
	return marks
}

func (d *Decoder) ids() (ids map[int32]string) {
	for n := d.Uvarint(); n > 0 && !d.bad; n-- {
		if ids == nil {
			ids = map[int32]string{}
		}
		partition := d.Uvarint()
		d.bad = d.bad || partition > math.MaxUint32
		ids[int32(uint32(partition))] = d.Text()
	}
	return ids
}

func (d *Decoder) positions() (positions map[string]string) {
	for n := d.Uvarint(); n > 0 && !d.bad; n-- {
		if positions == nil {
			positions = map[string]string{}
		}
		name := d.Text()
		positions[name] = d.Text()
	}
	return positions
}
