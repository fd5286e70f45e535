// SPDX-License-Identifier: Apache-2.0

package previous

import (
	"bytes"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// packers is how many objects are packed or unpacked at a time.
const packers = 2

// Packer compresses objects. It is safe for concurrent use.
type Packer struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
	scratch sync.Pool
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
	return &Packer{encoder: encoder, decoder: decoder, scratch: sync.Pool{New: func() any { return &Scratch{} }}}
}

// Scratch has the buffers that one attempt writes into while it is encoded.
type Scratch struct{ Old, Data, packed []byte }

// Pack compresses.
func (p *Packer) Pack(b []byte) []byte {
	r := p.Scratch()
	defer p.Return(r)
	r.packed = p.encoder.EncodeAll(b, r.packed[:0])
	return bytes.Clone(r.packed)
}

// unpack returns what was packed, in a scratch buffer; nil where b is damaged.
func (p *Packer) unpack(b, scratch []byte) []byte {
	out, err := p.decoder.DecodeAll(b, scratch[:0])
	if err != nil {
		return nil
	}
	return out
}

// Scratch returns buffers. The caller gives them back with Return.
func (p *Packer) Scratch() *Scratch {
	r, _ := p.scratch.Get().(*Scratch)
	return r
}

// Return takes buffers back.
func (p *Packer) Return(r *Scratch) { p.scratch.Put(r) }
