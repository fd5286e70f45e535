// SPDX-License-Identifier: Apache-2.0

package file

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"strconv"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

// A row is stored as
//
//	version and flags   1 byte: the encoding's version, 1, times 16, plus the flags below
//	uid                 16 bytes if packed, else its length as a uvarint and its bytes
//	resourceVersion     a uvarint if it is a number, else its length as a uvarint and its bytes
//	sequence            uvarint
//	partition           uvarint of its 32 bits
//	checksum            CRC-32C of the stream's name, the key and all of the above, little endian
//
// The checksum is there because the pages of the file have none.
const (
	rowVersion = 1 << 4

	rowDeleted       = 1 << 0
	rowPackedUID     = 1 << 1
	rowNumericalRV   = 1 << 2
	rowSuperseded    = 1 << 3
	rowFlags         = rowDeleted | rowPackedUID | rowNumericalRV | rowSuperseded
	rowSumSize       = 4
	packedUIDSize    = 16
	canonicalUIDSize = 36
)

var (
	errRow      = errors.New("not a row")
	errChecksum = errors.New("a row's checksum is wrong")

	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// salt is the part of a row's checksum that all rows of a stream share.
func salt(stream []byte) uint32 { return crc32.Checksum(stream, castagnoli) }

func rowSum(salt uint32, key, encoded []byte) uint32 {
	return crc32.Update(crc32.Update(salt, castagnoli, key), castagnoli, encoded)
}

// appendRow appends the encoded row to b.
func appendRow(b []byte, salt uint32, key []byte, r *checkpoint.Row) []byte {
	start := len(b)
	b = append(b, rowVersion)
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
		b = appendString(b, r.UID)
	}
	if n, ok := packVersion(r.ResourceVersion); ok {
		b[start] |= rowNumericalRV
		b = binary.AppendUvarint(b, n)
	} else {
		b = appendString(b, r.ResourceVersion)
	}
	b = binary.AppendUvarint(b, r.Sequence)
	b = binary.AppendUvarint(b, uint64(uint32(r.Partition)))
	return binary.LittleEndian.AppendUint32(b, rowSum(salt, key, b[start:]))
}

// decodeRow returns the key and the row that b holds. Nothing of them refers to key or b.
func decodeRow(salt uint32, key, b []byte) (string, checkpoint.Row, error) {
	var r checkpoint.Row
	if len(b) < 1+rowSumSize {
		return "", r, errRow
	}
	body := b[:len(b)-rowSumSize]
	if rowSum(salt, key, body) != binary.LittleEndian.Uint32(b[len(body):]) {
		return "", r, errChecksum
	}
	flags := body[0]
	if flags&^rowFlags != rowVersion {
		return "", r, errRow
	}
	// The key, the uid and the version share one allocation, and live as long as the row does.
	text := make([]byte, 0, 128)
	d := decoder{rest: body[1:]}
	text = append(text, key...)
	text = d.uid(text, flags&rowPackedUID != 0)
	uidEnd := len(text)
	text = d.version(text, flags&rowNumericalRV != 0)
	r.Sequence = d.uvarint()
	partition := d.uvarint()
	if d.bad || len(d.rest) != 0 || partition > math.MaxUint32 {
		return "", r, errRow
	}
	all := string(text)
	r.UID, r.ResourceVersion = all[len(key):uidEnd], all[uidEnd:]
	r.Partition = int32(uint32(partition))
	r.Deleted, r.Superseded = flags&rowDeleted != 0, flags&rowSuperseded != 0
	return all[:len(key)], r, nil
}

// decoder reads what an encoder appended. What follows bad input is zero.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) uvarint() uint64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 {
		d.bad, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.rest)) {
		d.bad, d.rest = true, nil
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) string() string { return string(d.bytes(d.uvarint())) }

func (d *decoder) uid(text []byte, packed bool) []byte {
	if !packed {
		return append(text, d.bytes(d.uvarint())...)
	}
	if b := d.bytes(packedUIDSize); b != nil {
		return appendUID(text, b)
	}
	return text
}

func (d *decoder) version(text []byte, number bool) []byte {
	if number {
		return strconv.AppendUint(text, d.uvarint(), 10)
	}
	return append(text, d.bytes(d.uvarint())...)
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
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
