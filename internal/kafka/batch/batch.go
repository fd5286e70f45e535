// SPDX-License-Identifier: Apache-2.0

// Package batch encodes what an idempotent Kafka producer sends: record batches of the version 2 (magic 2), and the
// partition of a key. It is pure: nothing is read, written or started.
//
// The format is that of the Kafka documentation, chapter "Record Batch"
// (https://kafka.apache.org/documentation/#recordbatch), with its parts "Record" and "Record Header". All numbers of
// the header are big-endian:
//
//	 0  baseOffset            int64   0: the broker assigns it
//	 8  batchLength           int32   the bytes after this field
//	12  partitionLeaderEpoch  int32   -1: the broker assigns it
//	16  magic                 int8    2
//	17  crc                   uint32  CRC32C (Castagnoli) of all bytes from attributes to the end
//	21  attributes            int16   bits 0-2 the compression; the others are 0: CreateTime, neither transactional
//	                                  nor control
//	23  lastOffsetDelta       int32   number of records - 1
//	27  baseTimestamp         int64   of the first record
//	35  maxTimestamp          int64
//	43  producerId            int64
//	51  producerEpoch         int16
//	53  baseSequence          int32   of the first record; each further record is one more
//	57  recordsCount          int32
//	61  records                       compressed as one block, if they are
package batch

import "math"

const (
	// Overhead is the size of a batch without records.
	Overhead = 61
	// DefaultLimit is the largest batch that a broker takes if its message.max.bytes, or the topic's max.message.bytes,
	// is the default. It counts all bytes of the batch as it is sent, compressed if it is: those of Builder.Size. One
	// byte more is refused with MESSAGE_TOO_LARGE.
	DefaultLimit = 1048588

	// prefix is kept before each batch for Builder.Addressed: a partition's number, and the batch's size.
	prefix     = 8
	sizePrefix = 4
	head       = prefix + Overhead
)

// Header is a header of a record. Its name has to be UTF-8: Java's clients read it as text. Its value may be any bytes
// but is never null.
type Header struct{ Name, Value string }

// Record is a record to append. Its key may be any bytes, and empty, but is never null.
type Record struct {
	Key string
	// Value is the record's value. Nil is the null value, a tombstone; an empty slice is not.
	Value   []byte
	Headers []Header
	// Timestamp is in milliseconds since 1970. A broker refuses a negative one.
	Timestamp int64
}

// Builder makes one batch after another in the same memory. The zero Builder is an empty batch. It is for one goroutine
// at a time.
//
// A batch is filled with Append, may be compressed, and is sealed, once or many times. A sealed batch keeps its
// records: from Seal to Reset only what Seal and Restamp are given changes. That is what a retry needs, because a
// broker that has a batch of the same sequences takes another one for its repetition, whatever is in it.
type Builder struct {
	// plain is the batch, packed the same with compressed records, both behind prefix bytes. packed counts only if
	// codec is not 0.
	plain, packed []byte
	codec         int16
	sealed        bool

	count         int
	first, newest int64
}

// Len returns the number of records.
func (b *Builder) Len() int { return b.count }

// Size returns the size of the batch in bytes as Seal would return it now.
func (b *Builder) Size() int {
	switch {
	case b.codec != 0:
		return len(b.packed) - prefix
	case b.count > 0:
		return len(b.plain) - prefix
	default:
		return Overhead
	}
}

// SizeWith returns what Size would be, uncompressed, with r as one more record.
func (b *Builder) SizeWith(r *Record) int {
	length := r.length(b.delta(r), b.count)
	return max(len(b.plain)-prefix, Overhead) + sizeVarint(length) + length
}

// Append adds r, which is copied, and reports whether it did: it does not if the batch would, uncompressed, be larger
// than limit bytes, or larger than the protocol can say, which is math.MaxInt32. It undoes Compress. It panics if the
// batch is sealed.
func (b *Builder) Append(r *Record, limit int) bool {
	if b.sealed {
		panic("BUG: record appended to a sealed batch")
	}
	limit = min(limit, math.MaxInt32)
	delta := b.delta(r)
	length := r.length(delta, b.count)
	size := max(len(b.plain), head) + sizeVarint(length) + length
	if size > limit+prefix {
		return false
	}
	b.grow(size, limit+prefix)
	b.plain = r.append(b.plain, length, delta, b.count)
	if b.count == 0 {
		b.first, b.newest = r.Timestamp, r.Timestamp
	}
	b.newest = max(b.newest, r.Timestamp)
	b.count++
	b.codec = 0
	return true
}

// Compress compresses the records with c if that makes the batch smaller, and returns the size of the batch, which is
// never larger than before. The records stay there uncompressed too, so that another codec can be tried. A nil Codec
// means no compression. It panics if the batch is sealed.
func (b *Builder) Compress(c *Codec) int {
	if b.sealed {
		panic("BUG: sealed batch compressed")
	}
	b.codec = 0
	if c == nil || b.count == 0 {
		return b.Size()
	}
	b.packed = c.compress(append(b.packed[:0], b.plain[:head]...), b.plain[head:])
	if len(b.packed) < len(b.plain) {
		b.codec = c.id
	}
	return b.Size()
}

// Reset makes the batch empty. What Seal and Addressed returned must not be used any more. Of the Builder's memory each
// part that is larger than keep bytes is let go: there are two such parts, the batch, and the batch compressed.
func (b *Builder) Reset(keep int) {
	plain, packed := b.plain[:0], b.packed[:0]
	if cap(plain) > keep {
		plain = nil
	}
	if cap(packed) > keep {
		packed = nil
	}
	*b = Builder{plain: plain, packed: packed}
}

// delta is the distance from the first record's timestamp.
func (b *Builder) delta(r *Record) int64 {
	if b.count == 0 {
		return 0
	}
	return r.Timestamp - b.first
}

// grow makes room for size bytes, but for not more than limit unless size is, and for the header.
func (b *Builder) grow(size, limit int) {
	if size > cap(b.plain) {
		grown := make([]byte, len(b.plain), max(size, min(2*cap(b.plain), limit)))
		copy(grown, b.plain)
		b.plain = grown
	}
	if len(b.plain) < head {
		b.plain = b.plain[:head]
	}
}
