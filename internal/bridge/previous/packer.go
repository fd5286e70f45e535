// SPDX-License-Identifier: Apache-2.0

package previous

import (
	"bytes"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// packers is how many objects are packed, or unpacked, at a time.
const packers = 2

// Packer compresses objects. It is safe for concurrent use.
type Packer struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
	rooms   sync.Pool
}

func newPacker() *Packer {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(packers),
		zstd.WithSingleSegment(true), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
	if err != nil {
		panic("BUG: " + err.Error())
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(packers))
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return &Packer{encoder: encoder, decoder: decoder, rooms: sync.Pool{New: func() any { return &Rooms{} }}}
}

// Rooms are what one attempt writes into while it is encoded.
type Rooms struct{ Old, Data, packed []byte }

// Pack compresses.
func (p *Packer) Pack(b []byte) []byte {
	r := p.Rooms()
	defer p.Return(r)
	r.packed = p.encoder.EncodeAll(b, r.packed[:0])
	return bytes.Clone(r.packed)
}

// unpack returns what was packed, in room; nil where that cannot be.
func (p *Packer) unpack(b, room []byte) []byte {
	out, err := p.decoder.DecodeAll(b, room[:0])
	if err != nil {
		return nil
	}
	return out
}

// Rooms returns some that are to be returned.
func (p *Packer) Rooms() *Rooms {
	r, _ := p.rooms.Get().(*Rooms)
	return r
}

// Return takes rooms back.
func (p *Packer) Return(r *Rooms) { p.rooms.Put(r) }
