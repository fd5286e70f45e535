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
//	flags            1 byte
//	more flags       1 byte, if the flags say so
//	uid              16 bytes if packed, else its length as a uvarint and its bytes
//	resourceVersion  a uvarint if it is a number, else its length as a uvarint and its bytes
//	epoch            uvarint
//	version          uvarint, if it is not the number of resourceVersion, or 0 where that is none
//	sequence         uvarint
//	partition        uvarint of its 32 bits
//	digest           16 bytes, if there is one
//	form             4 bytes, little endian, if there is one
//	written          uvarint of its 64 bits, if there is one
//
// Each row has one form.
const (
	rowDeleted = 1 << iota
	rowPackedUID
	rowNumericalRV
	rowVersion
	rowDigest
	rowForm
	rowMore
	rowEnd // the first bit that means nothing

	packedUIDSize    = 16
	canonicalUIDSize = 36
)

// More flags.
const (
	rowBehind = 1 << iota
	rowRejected
	rowWritten
	rowMoreEnd
)

var errRow = errors.New("not a row")

// AppendRow appends the encoded row.
func AppendRow(b []byte, r *checkpoint.Row) []byte {
	start := len(b)
	b = append(b, 0)
	if r.Deleted {
		b[start] |= rowDeleted
	}
	if more := moreFlags(r); more != 0 {
		b[start] |= rowMore
		b = append(b, more)
	}
	if packed, ok := packUID(r.UID); ok {
		b[start] |= rowPackedUID
		b = append(b, packed[:]...)
	} else {
		b = AppendText(b, r.UID)
	}
	number, ok := checkpoint.Number(r.ResourceVersion)
	if ok {
		b[start] |= rowNumericalRV
		b = binary.AppendUvarint(b, number)
	} else {
		b = AppendText(b, r.ResourceVersion)
	}
	b = binary.AppendUvarint(b, r.Epoch)
	if r.Version != number {
		b[start] |= rowVersion
		b = binary.AppendUvarint(b, r.Version)
	}
	b = binary.AppendUvarint(b, r.Sequence)
	b = binary.AppendUvarint(b, uint64(uint32(r.Partition)))
	if r.Digest != [16]byte{} {
		b[start] |= rowDigest
		b = append(b, r.Digest[:]...)
	}
	if r.Form != 0 {
		b[start] |= rowForm
		b = binary.LittleEndian.AppendUint32(b, r.Form)
	}
	if r.Written != 0 {
		b = binary.AppendUvarint(b, uint64(r.Written))
	}
	return b
}

func moreFlags(r *checkpoint.Row) (more byte) {
	if r.Behind {
		more |= rowBehind
	}
	if r.Rejected {
		more |= rowRejected
	}
	if r.Written != 0 {
		more |= rowWritten
	}
	return more
}

// DecodeRow returns the row that b holds, and its key as a string that shares the row's memory.
func DecodeRow(key, b []byte) (string, checkpoint.Row, error) {
	d := Decoder{rest: b}
	flags := d.byte()
	var more byte
	if flags&rowMore != 0 {
		more = d.byte()
		d.refuse(more == 0 || more >= rowMoreEnd)
	}
	d.refuse(flags >= rowEnd)
	// The key, the uid and the version share one allocation, and live as long as the row does.
	text := append(make([]byte, 0, 128), key...)
	text = d.uid(text, flags&rowPackedUID != 0)
	uidEnd := len(text)
	text, number := d.version(text, flags&rowNumericalRV != 0)
	all := string(text)
	r := checkpoint.Row{
		UID: all[len(key):uidEnd], ResourceVersion: all[uidEnd:], Epoch: d.Uvarint(), Version: number,
		Deleted: flags&rowDeleted != 0, Behind: more&rowBehind != 0, Rejected: more&rowRejected != 0,
	}
	if flags&rowVersion != 0 {
		r.Version = d.Uvarint()
		d.refuse(r.Version == number)
	}
	r.Sequence = d.Uvarint()
	partition := d.Uvarint()
	r.Partition = int32(uint32(partition))
	if flags&rowDigest != 0 {
		copy(r.Digest[:], d.Bytes(uint64(len(r.Digest))))
		d.refuse(r.Digest == [16]byte{})
	}
	if flags&rowForm != 0 {
		var form [4]byte
		copy(form[:], d.Bytes(uint64(len(form))))
		r.Form = binary.LittleEndian.Uint32(form[:])
		d.refuse(r.Form == 0)
	}
	if more&rowWritten != 0 {
		r.Written = int64(d.Uvarint())
		d.refuse(r.Written == 0)
	}
	if d.Done() != nil || partition > math.MaxUint32 {
		return "", checkpoint.Row{}, errRow
	}
	return all[:len(key)], r, nil
}

func (d *Decoder) uid(text []byte, packed bool) []byte {
	if packed {
		if b := d.Bytes(packedUIDSize); b != nil {
			return appendUID(text, b)
		}
		return text
	}
	b := d.Bytes(d.Uvarint())
	if len(b) == canonicalUIDSize {
		_, packable := packUID(string(b))
		d.refuse(packable)
	}
	return append(text, b...)
}

// version appends a version, and returns its number if it is one.
func (d *Decoder) version(text []byte, is bool) (longer []byte, number uint64) {
	if is {
		number = d.Uvarint()
		d.refuse(number == 0) // which is no version
		return strconv.AppendUint(text, number, 10), number
	}
	b := d.Bytes(d.Uvarint())
	_, numerical := checkpoint.Number(string(b))
	d.refuse(numerical)
	return append(text, b...), 0
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
