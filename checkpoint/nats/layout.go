// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/codec"
)

// A message is
//
//	format  1 byte
//	kind    1 byte
//	writer  8 bytes, little endian: a number that is no other writer's
//	epoch   how often the checkpoint was opened
//	number  of the message, as in its key
//	parts   of a part how many come before it in its commit, of a commit or base how many it has besides this
//	        message; of a writer 0
//	body    the rest: a part of a commit's records; of a writer the name of its process, or nothing if that has closed
//	        the checkpoint
//
// The records of a commit are those of its parts and its last message, put together. Each begins with what it does:
//
//	i  the identity
//	l  length, log                  what is known of the log
//	f  name                         forgets a stream and its rows
//	s  name, length, state          a stream's state
//	@  name                         says of which stream the rows behind it are
//	+  key, length, row             a row
//	-  key                          a row that is gone
//
// Numbers and lengths are uvarints, names and keys texts, that is their length and their bytes; states are as the
// package codec writes them.
const (
	format = checkpoint.Format

	// kindWriter says that a process has opened the checkpoint, uses it still, or has closed it; parts before it do not
	// count.
	kindWriter = 'w'
	kindPart   = 'p'
	kindCommit = 'c'
	// kindBase is a commit that replaces all that was there.
	kindBase = 'b'

	opIdentity = 'i'
	opLog      = 'l'
	opForget   = 'f'
	opStream   = 's'
	opRowsOf   = '@'
	opPut      = '+'
	opDrop     = '-'
)

// headSize is more than a message has besides its body.
const headSize = 2 + 8 + 3*binary.MaxVarintLen64

var (
	errEmpty = errors.New("the message is empty")
	errRest  = errors.New("the message is cut short")
)

// message is one of a checkpoint.
type message struct {
	kind                         byte
	writer, epoch, number, parts uint64
	body                         []byte
}

func (m *message) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(append(b, format, m.kind), m.writer)
	for _, n := range []uint64{m.epoch, m.number, m.parts} {
		b = binary.AppendUvarint(b, n)
	}
	return append(b, m.body...)
}

// decodeMessage returns what data is; the body is a part of data.
func decodeMessage(data []byte) (m message, err error) {
	if len(data) == 0 {
		return m, errEmpty
	}
	if data[0] != format {
		return m, codec.UnknownFormat(data[0])
	}
	d := codec.NewDecoder(data[1:])
	if kind := d.Bytes(1); kind != nil {
		m.kind = kind[0]
	}
	if writer := d.Bytes(8); writer != nil {
		m.writer = binary.LittleEndian.Uint64(writer)
	}
	m.epoch, m.number, m.parts = d.Uvarint(), d.Uvarint(), d.Uvarint()
	m.body = d.Rest()
	if d.Bad() {
		return message{}, errRest
	}
	switch m.kind {
	case kindWriter, kindPart, kindCommit, kindBase:
		return m, nil
	default:
		return message{}, fmt.Errorf("a message of kind %q", m.kind)
	}
}

// appendBatch appends the records of a batch.
func appendBatch(b []byte, batch *checkpoint.Batch) []byte {
	b = codec.AppendIdentity(append(b, opIdentity), batch.Identity)
	for _, name := range batch.Forget {
		b = codec.AppendText(append(b, opForget), name)
	}
	var value []byte
	if batch.Log != nil {
		value = codec.AppendLog(value[:0], batch.Log)
		b = codec.AppendText(append(b, opLog), value)
	}
	for name, stream := range batch.Streams {
		value = codec.AppendStream(value[:0], &stream)
		b = codec.AppendText(codec.AppendText(append(b, opStream), name), value)
	}
	for name, rows := range batch.Put {
		b = codec.AppendText(append(b, opRowsOf), name)
		for key, row := range rows {
			value = codec.AppendRow(value[:0], &row)
			b = codec.AppendText(codec.AppendText(append(b, opPut), key), value)
		}
	}
	for name, keys := range batch.Drop {
		b = codec.AppendText(append(b, opRowsOf), name)
		for _, key := range keys {
			b = codec.AppendText(append(b, opDrop), key)
		}
	}
	return b
}
