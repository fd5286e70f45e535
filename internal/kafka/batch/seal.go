// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// Where the fields of a batch are, by the chapter "Record Batch".
const (
	atLength          = 8
	atLeaderEpoch     = 12
	atMagic           = 16
	atCRC             = 17
	atAttributes      = 21
	atLastOffsetDelta = 23
	atBaseTimestamp   = 27
	atMaxTimestamp    = 35
	atProducerID      = 43
	atProducerEpoch   = 51
	atBaseSequence    = 53
	atCount           = 57

	magic = 2
	// noEpoch: partitionLeaderEpoch is not under the CRC, because the broker sets it.
	noEpoch = -1
)

// Seal fills in the header for a producer and returns the batch. A producer that is not idempotent has -1 for all
// three.
//
// The bytes are the Builder's own, good until Reset. Seal again, for another producer id, epoch or sequence, writes the
// new header and CRC into the same bytes: nothing may read them meanwhile, as a connection does that still sends them.
// Nothing else in them changes. It panics if there are no records, because brokers refuse such a batch.
func (b *Builder) Seal(producerID int64, epoch int16, baseSequence int32) []byte {
	if b.count == 0 {
		panic("BUG: batch without records sealed")
	}
	b.sealed = true
	addressed := b.bytes()
	p := addressed[prefix:]

	be := binary.BigEndian
	be.PutUint32(addressed[prefix-sizePrefix:], uint32(len(p)))
	be.PutUint64(p, 0)
	be.PutUint32(p[atLength:], uint32(len(p)-atLeaderEpoch))
	be.PutUint32(p[atLeaderEpoch:], noEpoch&0xffffffff)
	p[atMagic] = magic
	be.PutUint16(p[atAttributes:], uint16(b.codec))
	be.PutUint32(p[atLastOffsetDelta:], uint32(b.count-1))
	be.PutUint64(p[atBaseTimestamp:], uint64(b.first))
	be.PutUint64(p[atMaxTimestamp:], uint64(b.newest))
	be.PutUint64(p[atProducerID:], uint64(producerID))
	be.PutUint16(p[atProducerEpoch:], uint16(epoch))
	be.PutUint32(p[atBaseSequence:], uint32(baseSequence))
	be.PutUint32(p[atCount:], uint32(b.count))
	// MakeTable makes nothing: it returns the table that is computed by the processor where it can.
	be.PutUint32(p[atCRC:], crc32.Checksum(p[atAttributes:], crc32.MakeTable(crc32.Castagnoli)))
	return p
}

// Newest returns the newest timestamp of the records.
func (b *Builder) Newest() int64 { return b.newest }

// Restamp moves the timestamps of all records by as much as makes the newest of them what it is given. The batch has to
// be sealed again; its bytes are in other memory then, so that a connection which still sends the former ones does not
// notice.
func (b *Builder) Restamp(newest int64) {
	b.plain, b.packed = bytes.Clone(b.plain), bytes.Clone(b.packed)
	b.first += newest - b.newest
	b.newest = newest
}

// Addressed returns what Seal returned last behind the number of a partition and its own length, both as an int32: what
// a Produce request up to version 8 has for each partition. It is the Builder's own, as what Seal returns. It panics if
// the batch is not sealed.
func (b *Builder) Addressed(partition int32) []byte {
	if !b.sealed {
		panic("BUG: batch is not sealed")
	}
	p := b.bytes()
	// A connection may still read what is to be sent again: it is not written without need.
	if be := binary.BigEndian; be.Uint32(p) != uint32(partition) {
		be.PutUint32(p, uint32(partition))
	}
	return p
}

// bytes returns the batch behind its prefix, without room behind it.
func (b *Builder) bytes() []byte {
	p := b.plain
	if b.codec != 0 {
		p = b.packed
	}
	return p[:len(p):len(p)]
}

// NextSequence returns the sequence that follows records of which the first has the sequence base. After 0x7fffffff
// comes 0, as in DefaultRecordBatch.incrementSequence of Kafka's clients and brokers.
func NextSequence(base int32, records int) int32 {
	return int32((uint32(base) + uint32(records)) & 0x7fffffff)
}
