// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
)

// olds keeps what was before, of each object of a stream: compressed, and in memory only. There are two befores. What
// the log has is the data of the object's last event, already without what is not published; patches apply to it. What
// was seen last is the object as the API server sent it, published or not; filters ask for it. Either is handed out
// only where the object's row says that it is that still: in doubt nothing is known.
//
// It is safe for concurrent use; one object's turns are its attempts, of which there is one at a time.
type olds struct {
	// data and states say which of the two is kept.
	data, states bool
	packer       *packer

	mu    sync.Mutex
	of    map[string]old
	bytes int
}

// old is what was before of one object.
type old struct {
	uid string
	// data is what its event at a place in the log says of version; state is what was seen at the version seen. They
	// are nil where they are not known.
	data, state   []byte
	version, seen string
	sequence      uint64
	partition     int32
}

// size is about what an old takes in memory.
func (o *old) size(key string) int { return len(o.data) + len(o.state) + len(key) + oldOverhead }

// oldOverhead is that of a place in the map, with the texts of uid and versions.
const oldOverhead = 256

// newOlds returns nil where nothing is to be kept.
func newOlds(spec *StreamSpec, p func() *packer) *olds {
	k := &olds{data: spec.Encoding.Payload.FromOld(), states: spec.Olds, of: map[string]old{}}
	if !k.data && !k.states {
		return nil
	}
	k.packer = p()
	return k
}

func (k *olds) get(key string) old {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.of[key]
}

// put replaces what is known of an object; drop forgets it.
func (k *olds) put(key string, o old) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if was, ok := k.of[key]; ok {
		k.bytes -= was.size(key)
	}
	k.of[key] = o
	k.bytes += o.size(key)
}

func (k *olds) drop(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if was, ok := k.of[key]; ok {
		k.bytes -= was.size(key)
		delete(k.of, key)
	}
}

// total returns of how many objects something is kept, and about how many bytes that takes.
func (k *olds) total() (objects, bytes int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.of), k.bytes
}

// alive reports whether the row and what is kept are of the same object.
func (o *old) alive(row checkpoint.Row) bool { return o.uid == row.UID && !row.Deleted }

// logged returns what the log has of an object, in room; the zero Old where that is not known.
func (k *olds) logged(key string, row checkpoint.Row, room []byte) encode.Old {
	o := k.get(key)
	if o.data == nil || !o.alive(row) || o.sequence != row.Sequence || o.partition != row.Partition {
		return encode.Old{}
	}
	return encode.Old{Data: k.packer.unpack(o.data, room), ResourceVersion: o.version}
}

// before returns the object as it was seen last, in room; nil where that is not known.
func (k *olds) before(key string, row checkpoint.Row, room []byte) []byte {
	o := k.get(key)
	if o.state == nil || !o.alive(row) || o.seen != row.ResourceVersion {
		return nil
	}
	return k.packer.unpack(o.state, room)
}

// packer compresses objects. It is safe for concurrent use.
type packer struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
	rooms   sync.Pool
}

func newPacker() *packer {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(workers),
		zstd.WithSingleSegment(true),
		zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
	if err != nil {
		panic("BUG: " + err.Error())
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(workers))
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return &packer{encoder: encoder, decoder: decoder, rooms: sync.Pool{New: func() any { return &rooms{} }}}
}

// rooms are what one attempt writes into while it is encoded.
type rooms struct{ old, data, packed []byte }

func (p *packer) pack(b []byte) []byte {
	r := p.room()
	defer p.rooms.Put(r)
	r.packed = p.encoder.EncodeAll(b, r.packed[:0])
	return bytes.Clone(r.packed)
}

// unpack returns what was packed, in room; nil where that cannot be.
func (p *packer) unpack(b, room []byte) []byte {
	out, err := p.decoder.DecodeAll(b, room[:0])
	if err != nil {
		return nil
	}
	return out
}

func (p *packer) room() *rooms {
	r, _ := p.rooms.Get().(*rooms)
	return r
}
