// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

// A row is written as
//
//	version and flags   1 byte: the encoding's version times 16, plus the flags below; version 1 for a row without what follows, and more by 1 with a digest, 2 with a form, 4 if it is to be told again
//	uid                 16 bytes if packed, else its length as a uvarint and its bytes
//	resourceVersion     a uvarint if it is a number, else its length as a uvarint and its bytes
//	sequence            uvarint
//	partition           uvarint of its 32 bits
//	digest              16 bytes, if there is one
//	form                4 bytes, little endian, if there is one
const (
	rowVersion = 1 << 4
	// What is added to that for a row that has more.
	rowDigest = 1 << 4
	rowForm   = 2 << 4
	rowAgain  = 4 << 4

	rowDeleted       = 1 << 0
	rowPackedUID     = 1 << 1
	rowNumericalRV   = 1 << 2
	rowSuperseded    = 1 << 3
	rowFlags         = rowDeleted | rowPackedUID | rowNumericalRV | rowSuperseded
	packedUIDSize    = 16
	canonicalUIDSize = 36
)

var errRow = errors.New("not a row")

// AppendRow appends the encoded row.
func AppendRow(b []byte, r *checkpoint.Row) []byte {
	start := len(b)
	b = append(b, rowVersion)
	if r.Again {
		b[start] += rowAgain
	}
	if r.Deleted {
		b[start] |= rowDeleted
	}
	if r.Superseded {
		b[start] |= rowSuperseded
	}
	if packed, ok := packUID(r.UID); ok {
		b[start] |= rowPackedUID
		b = append(b, packed[:]...)
	} else {
		b = AppendText(b, r.UID)
	}
	if n, ok := packVersion(r.ResourceVersion); ok {
		b[start] |= rowNumericalRV
		b = binary.AppendUvarint(b, n)
	} else {
		b = AppendText(b, r.ResourceVersion)
	}
	b = binary.AppendUvarint(b, r.Sequence)
	b = binary.AppendUvarint(b, uint64(uint32(r.Partition)))
	if r.Digest != [16]byte{} {
		b[start] += rowDigest
		b = append(b, r.Digest[:]...)
	}
	if r.Form != 0 {
		b[start] += rowForm
		b = binary.LittleEndian.AppendUint32(b, r.Form)
	}
	return b
}

// DecodeRow returns the row that b holds, and its key as a string that shares the row's memory.
func DecodeRow(key, b []byte) (string, checkpoint.Row, error) {
	var r checkpoint.Row
	if len(b) == 0 || b[0] < rowVersion || b[0] >= rowVersion+rowDigest+rowForm+rowAgain+1<<4 {
		return "", r, errRow
	}
	flags, more := b[0], b[0]&^rowFlags-rowVersion
	// The key, the uid and the version share one allocation, and live as long as the row does.
	text := make([]byte, 0, 128)
	d := Decoder{rest: b[1:]}
	text = append(text, key...)
	text = d.uid(text, flags&rowPackedUID != 0)
	uidEnd := len(text)
	text = d.version(text, flags&rowNumericalRV != 0)
	r.Sequence = d.Uvarint()
	partition := d.Uvarint()
	if more&rowDigest != 0 {
		copy(r.Digest[:], d.Bytes(uint64(len(r.Digest))))
	}
	if more&rowForm != 0 {
		var form [4]byte
		copy(form[:], d.Bytes(uint64(len(form))))
		r.Form = binary.LittleEndian.Uint32(form[:])
	}
	r.Again = more&rowAgain != 0
	if d.Done() != nil || partition > math.MaxUint32 {
		return "", checkpoint.Row{}, errRow
	}
	all := string(text)
	r.UID, r.ResourceVersion = all[len(key):uidEnd], all[uidEnd:]
	r.Partition = int32(uint32(partition))
	r.Deleted, r.Superseded = flags&rowDeleted != 0, flags&rowSuperseded != 0
	return all[:len(key)], r, nil
}

func (d *Decoder) uid(text []byte, packed bool) []byte {
	if !packed {
		return append(text, d.Bytes(d.Uvarint())...)
	}
	if b := d.Bytes(packedUIDSize); b != nil {
		return appendUID(text, b)
	}
	return text
}

func (d *Decoder) version(text []byte, number bool) []byte {
	if number {
		return strconv.AppendUint(text, d.Uvarint(), 10)
	}
	return append(text, d.Bytes(d.Uvarint())...)
}

// packVersion returns the number that version is written as, if that is how the number is written.
func packVersion(version string) (uint64, bool) {
	if version == "" || version[0] == '0' || version[0] == '+' {
		return 0, false
	}
	n, err := strconv.ParseUint(version, 10, 64)
	return n, err == nil
}

// packUID returns the 16 bytes that uid is the canonical text of.
func packUID(uid string) (packed [packedUIDSize]byte, ok bool) {
	if len(uid) != canonicalUIDSize {
		return packed, false
	}
	n := 0
	for i := 0; i < canonicalUIDSize; {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if uid[i] != '-' {
				return packed, false
			}
			i++
			continue
		}
		hi, lo := nibble(uid[i]), nibble(uid[i+1])
		if hi|lo > 15 {
			return packed, false
		}
		packed[n] = hi<<4 | lo
		n++
		i += 2
	}
	return packed, true
}

// nibble returns the value of a lower-case hexadecimal digit, and more than 15 of anything else.
func nibble(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	default:
		return 0xff
	}
}

func appendUID(text, packed []byte) []byte {
	const digits = "0123456789abcdef"
	for i, b := range packed {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			text = append(text, '-')
		}
		text = append(text, digits[b>>4], digits[b&15])
	}
	return text
}
