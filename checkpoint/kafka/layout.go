// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/codec"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
)

// A record's key is the checkpoint's name as a text, a kind, and
//
//	o  nothing             the origin: nothing
//	b  nothing             the barrier: producer id and epoch of the process that has opened the checkpoint;
//	                       then its name, or nothing if it has closed the checkpoint
//	h  nothing             the head: number of the last commit, number of its chunks that wait to be copied, last
//	                       stream number given out, identity
//	l  nothing             what is known of the log
//	s  name                a stream: its number; then 1 and the stream's state, or 0 where only rows are known
//	r  number, key         a row of the stream with that number
//	c  number              a chunk: number of the commit; then keys without the checkpoint's name, as texts, and values:
//	                       0, or their length + 1 and their bytes
//
// Each value begins with the format. Numbers are uvarints, texts their length as a uvarint and their bytes; states are
// as the package codec writes them.
//
// The origin is written once, before anything else: whatever deletes from the beginning, as retention does and
// compaction does not, deletes it first. The number of a stream that is forgotten is not given out again: so all its
// rows are forgotten with one record, and removed by the first commit of the next process.
const (
	kindOrigin  = 'o'
	kindBarrier = 'b'
	kindHead    = 'h'
	kindLog     = 'l'
	kindStream  = 's'
	kindRow     = 'r'
	kindChunk   = 'c'
)

const format = checkpoint.Format

var (
	errKey   = errors.New("the key is not that of a checkpoint")
	errEmpty = errors.New("the value is empty")
	errRest  = errors.New("the value is cut short")
)

// head is what a commit ends with.
type head struct {
	// number counts commits; 0 is none.
	number uint64
	// chunks is how many chunks have what the commit changed, until they are copied.
	chunks uint64
	// last is the last number that was given to a stream.
	last     uint64
	identity checkpoint.Identity
}

func appendHead(b []byte, h *head) []byte {
	b = append(b, format)
	for _, n := range []uint64{h.number, h.chunks, h.last} {
		b = binary.AppendUvarint(b, n)
	}
	return codec.AppendIdentity(b, h.identity)
}

func decodeHead(body []byte) (h head, err error) {
	d := codec.NewDecoder(body)
	h.number, h.chunks, h.last = d.Uvarint(), d.Uvarint(), d.Uvarint()
	h.identity = d.Identity()
	if d.Done() != nil || h.number == 0 {
		return head{}, errRest
	}
	return h, nil
}

func appendBarrier(b []byte, p kafka.Producer, process string) []byte {
	b = binary.AppendUvarint(binary.AppendUvarint(append(b, format), uint64(p.ID)), uint64(p.Epoch))
	return append(b, process...)
}

func decodeBarrier(body []byte) (p kafka.Producer, process string, err error) {
	d := codec.NewDecoder(body)
	id, epoch := d.Uvarint(), d.Uvarint()
	if d.Bad() || id > math.MaxInt64 || epoch > math.MaxInt16 {
		return p, "", errRest
	}
	return kafka.Producer{ID: int64(id), Epoch: int16(epoch)}, string(d.Rest()), nil
}

// stream is what is known of a stream besides its rows.
type stream struct {
	number uint64
	// state is nil where only rows are known.
	state *checkpoint.Stream
}

func appendStream(b []byte, s stream) []byte {
	b = binary.AppendUvarint(append(b, format), s.number)
	if s.state == nil {
		return append(b, 0)
	}
	return codec.AppendStream(append(b, 1), s.state)
}

func decodeStream(body []byte) (s stream, err error) {
	d := codec.NewDecoder(body)
	s.number = d.Uvarint()
	known := d.Uvarint()
	switch {
	case known == 0:
		return s, d.Done()
	case known > 1:
		return s, errRest
	}
	state, err := codec.DecodeStream(d.Rest())
	s.state = &state
	return s, err
}

// appendChange appends a record to a chunk. A nil value is null.
func appendChange(b []byte, key string, value []byte) []byte {
	b = codec.AppendText(b, key)
	if value == nil {
		return append(b, 0)
	}
	return append(binary.AppendUvarint(b, uint64(len(value))+1), value...)
}

// changeSize is how many bytes appendChange appends at most.
func changeSize(key string, value []byte) int { return 2*binary.MaxVarintLen32 + len(key) + len(value) }

// keys makes the keys of a checkpoint. A key is a part of a larger string, as long as there is room in that.
type keys struct {
	prefix string
	room   strings.Builder
}

const keyRoom = 32 << 10

func newKeys(name string) *keys { return &keys{prefix: string(codec.AppendText(nil, name))} }

func (k *keys) plain(kind byte) string { return k.prefix + string(kind) }

func (k *keys) stream(name string) string { return k.prefix + string(kindStream) + name }

func (k *keys) chunk(n uint64) string {
	return k.prefix + string(binary.AppendUvarint([]byte{kindChunk}, n))
}

func (k *keys) row(stream uint64, key string) string {
	if k.room.Cap()-k.room.Len() < len(k.prefix)+1+binary.MaxVarintLen64+len(key) {
		k.room.Reset() // earlier keys keep the memory
		k.room.Grow(keyRoom + len(key))
	}
	start := k.room.Len()
	var number [binary.MaxVarintLen64]byte
	k.room.WriteString(k.prefix)
	k.room.WriteByte(kindRow)
	k.room.Write(binary.AppendUvarint(number[:0], stream))
	k.room.WriteString(key)
	return k.room.String()[start:]
}
