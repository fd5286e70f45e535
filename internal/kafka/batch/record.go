// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"encoding/binary"
	"math/bits"
)

// A record, by the chapter "Record":
//
//	length          varint  the bytes after this field
//	attributes      int8    0
//	timestampDelta  varint  from baseTimestamp; may be negative
//	offsetDelta     varint  the record's place in the batch
//	keyLength       varint  -1 for null; then the key
//	valueLength     varint  -1 for null; then the value
//	headersCount    varint  then the headers: a varint and the name, a varint (-1 for null) and the value
//
// A varint is that of Protocol Buffers with zigzag encoding, which is that of encoding/binary too.

const null = -1

// length is what the field length says.
func (r *Record) length(timestampDelta int64, offsetDelta int) int {
	n := 1 + sizeVarint64(timestampDelta) + sizeVarint(offsetDelta) + sizeBytes(len(r.Key)) + sizeVarint(len(r.Headers))
	if r.Value == nil {
		n += sizeVarint(null)
	} else {
		n += sizeBytes(len(r.Value))
	}
	for i := range r.Headers {
		n += sizeBytes(len(r.Headers[i].Name)) + sizeBytes(len(r.Headers[i].Value))
	}
	return n
}

// append appends the record to dst, which has room for it.
func (r *Record) append(dst []byte, length int, timestampDelta int64, offsetDelta int) []byte {
	dst = append(appendVarint(dst, length), 0)
	dst = binary.AppendVarint(dst, timestampDelta)
	dst = appendVarint(dst, offsetDelta)
	dst = append(appendVarint(dst, len(r.Key)), r.Key...)
	if r.Value == nil {
		dst = appendVarint(dst, null)
	} else {
		dst = append(appendVarint(dst, len(r.Value)), r.Value...)
	}
	dst = appendVarint(dst, len(r.Headers))
	for i := range r.Headers {
		h := &r.Headers[i]
		dst = append(appendVarint(dst, len(h.Name)), h.Name...)
		dst = append(appendVarint(dst, len(h.Value)), h.Value...)
	}
	return dst
}

func appendVarint(dst []byte, n int) []byte {
	// Most numbers of a record are lengths of names and short values.
	if 0 <= n && n < 64 {
		return append(dst, byte(n<<1))
	}
	return binary.AppendVarint(dst, int64(n))
}

// sizeBytes is the size of n bytes and their length.
func sizeBytes(n int) int { return sizeVarint(n) + n }

func sizeVarint(n int) int { return sizeVarint64(int64(n)) }

func sizeVarint64(n int64) int {
	zigzag := uint64(n)<<1 ^ uint64(n>>63)
	// One byte for each seven bits, and one for zero: the same as max(1, ceil(bits/7)) for 0 to 64 bits, without a
	// division.
	return (9*bits.Len64(zigzag) + 64) / 64
}
