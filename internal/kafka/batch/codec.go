// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"encoding/binary"
	"io"
	"runtime"
	"slices"
	"strconv"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Compression is the compression of a batch's records, by its name in Kafka's compression.type.
type Compression string

// The compressions. The zero Compression is None.
const (
	None   Compression = "none"
	Gzip   Compression = "gzip"
	Snappy Compression = "snappy"
	Lz4    Compression = "lz4"
	Zstd   Compression = "zstd"
)

// Codec compresses batches, and is safe for concurrent use. It has as many encoders as GOMAXPROCS was when it was made;
// who finds all in use waits for one. An encoder is made when it is needed for the first time and keeps its memory:
// gzip 1 MiB, zstd 3 MiB, the others less than half a MiB.
type Codec struct {
	// id is the codec's number in the attributes of a batch.
	id int16
	// idle has the encoders that are not in use, nil for those not made yet.
	idle chan encoder
	make func() encoder
}

// encoder appends src, compressed, to dst. It is for one goroutine at a time.
type encoder func(dst, src []byte) []byte

// NewCodec returns the codec of c, at the level that Java's clients use for it if they are not configured otherwise, or
// close to it. It returns nil for None, which Compress takes, and panics if there is no such compression.
func NewCodec(c Compression) *Codec {
	switch c {
	case None, "":
		return nil
	case Gzip:
		return newCodec(1, newGzip)
	case Snappy:
		return newCodec(2, newSnappy)
	case Lz4:
		return newCodec(3, newLz4)
	case Zstd:
		return newCodec(4, newZstd)
	default:
		panic("BUG: compression " + strconv.Quote(string(c)))
	}
}

func newCodec(id int16, fresh func() encoder) *Codec {
	c := &Codec{id: id, idle: make(chan encoder, runtime.GOMAXPROCS(0)), make: fresh}
	for range cap(c.idle) {
		c.idle <- nil
	}
	return c
}

func (c *Codec) compress(dst, src []byte) []byte {
	e := <-c.idle
	if e == nil {
		e = c.make()
	}
	defer func() { c.idle <- e }()
	return e(dst, src)
}

// buffer is an io.Writer that never fails.
type buffer []byte

func (b *buffer) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

func newGzip() encoder {
	w := gzip.NewWriter(nil)
	var out buffer
	return func(dst, src []byte) []byte {
		out = dst
		w.Reset(&out)
		return write(w, &out, src)
	}
}

// newLz4 writes the frame format with independent blocks of 64 KiB, as Java does: a consumer in Java takes as much
// memory as a frame says that its blocks may have, and refuses blocks that depend on others. The frame has no checksum
// of its contents: the batch has one.
func newLz4() encoder {
	w := lz4.NewWriter(nil)
	if err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false)); err != nil {
		panic("BUG: lz4: " + err.Error())
	}
	var out buffer
	return func(dst, src []byte) []byte {
		out = dst
		w.Reset(&out)
		return write(w, &out, src)
	}
}

// write has src compressed by w, which writes to out.
func write(w io.WriteCloser, out *buffer, src []byte) []byte {
	_, err := w.Write(src)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic("BUG: compress: " + err.Error())
	}
	dst := *out
	*out = nil
	return dst
}

// newSnappy writes what snappy-java's SnappyOutputStream does, which is what "snappy" means to Kafka: 16 bytes of
// header, then blocks of Snappy's own format, each behind its length. The blocks have 64 KiB, as far as Snappy looks
// back; any size can be read.
func newSnappy() encoder {
	const block = 64 << 10
	return func(dst, src []byte) []byte {
		dst = append(dst, 0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1)
		for len(src) > 0 {
			from := src[:min(block, len(src))]
			src = src[len(from):]
			room := s2.MaxEncodedLen(len(from))
			dst = slices.Grow(dst, 4+room)
			at := len(dst) + 4
			// With that much room EncodeSnappy takes no memory of its own: the block is in its place.
			n := len(s2.EncodeSnappy(dst[at:at+room], from))
			dst = binary.BigEndian.AppendUint32(dst, uint32(n))[:at+n]
		}
		return dst
	}
}

// newZstd looks back 1 MiB, which is a whole batch at Kafka's default limit. The encoder's own choice, 8 MiB, takes six
// times the memory here and 8 MiB in each consumer. The frame has no checksum: the batch has one.
func newZstd() encoder {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false),
		zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic("BUG: zstd: " + err.Error())
	}
	return func(dst, src []byte) []byte { return w.EncodeAll(src, dst) }
}
