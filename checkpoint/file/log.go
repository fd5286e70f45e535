// SPDX-License-Identifier: Apache-2.0

package file

import (
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

// encodeLog returns what is known of the log as it is stored:
//
//	id         text
//	losses     uvarint
//	marks      their number; each the 32 bits of its partition and its sequence, in the order of partitions
//	trail      the number of waypoints; each its marks, the number of its ids, these as partition and id in
//	          the order of partitions, the number of its positions, and these as name and position in the order of names
//
// The same log gives the same bytes.
func encodeLog(l *checkpoint.Log) []byte {
	b := appendMarks(binary.AppendUvarint(appendString(nil, l.ID), uint64(l.Losses)), l.Marks)
	b = binary.AppendUvarint(b, uint64(len(l.Trail)))
	for _, w := range l.Trail {
		b = appendIDs(appendMarks(b, w.Marks), w.IDs)
		b = binary.AppendUvarint(b, uint64(len(w.Positions)))
		for _, name := range slices.Sorted(maps.Keys(w.Positions)) {
			b = appendString(appendString(b, name), w.Positions[name])
		}
	}
	return seal(keyLog, b)
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
		b = appendString(binary.AppendUvarint(b, uint64(uint32(partition))), ids[partition])
	}
	return b
}

// decodeLog is the inverse of encodeLog, but that what was empty is nil. Nil is a log of which nothing is known.
func decodeLog(b []byte) (l checkpoint.Log, err error) {
	if b == nil {
		return l, nil
	}
	d, err := unseal(keyLog, b)
	if err != nil {
		return l, err
	}
	l.ID = d.string()
	losses := d.uvarint()
	l.Marks = d.marks()
	for n := d.uvarint(); n > 0 && !d.bad; n-- {
		l.Trail = append(l.Trail, checkpoint.Waypoint{Marks: d.marks(), IDs: d.ids(), Positions: d.positions()})
	}
	if d.bad || len(d.rest) != 0 || losses > math.MaxInt {
		return checkpoint.Log{}, errors.New("cut short")
	}
	l.Losses = int(losses)
	return l, nil
}

func (d *decoder) marks() (marks map[int32]uint64) {
	for n := d.uvarint(); n > 0 && !d.bad; n-- {
		if marks == nil {
			marks = map[int32]uint64{}
		}
		partition := d.uvarint()
		d.bad = d.bad || partition > math.MaxUint32
		marks[int32(uint32(partition))] = d.uvarint()
	}
	return marks
}

func (d *decoder) ids() (ids map[int32]string) {
	for n := d.uvarint(); n > 0 && !d.bad; n-- {
		if ids == nil {
			ids = map[int32]string{}
		}
		partition := d.uvarint()
		d.bad = d.bad || partition > math.MaxUint32
		ids[int32(uint32(partition))] = d.string()
	}
	return ids
}

func (d *decoder) positions() (positions map[string]string) {
	for n := d.uvarint(); n > 0 && !d.bad; n-- {
		if positions == nil {
			positions = map[string]string{}
		}
		name := d.string()
		positions[name] = d.string()
	}
	return positions
}
