// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"encoding/binary"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/codec"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
)

// take does what a record says; key is without the checkpoint's name.
func (r *replay) take(key, value []byte) error {
	if len(key) == 0 {
		return errKey
	}
	kind, key := key[0], key[1:]
	switch {
	case value == nil:
		return r.remove(kind, key)
	case len(value) == 0:
		return errEmpty
	case value[0] != format:
		return codec.UnknownFormat(value[0])
	}
	return r.set(kind, key, value[1:])
}

// remove does what a record without a value says.
func (r *replay) remove(kind byte, key []byte) error {
	switch kind {
	case kindRow:
		number, key, err := cutNumber(key)
		delete(r.rows[number], string(key))
		if len(r.rows[number]) == 0 {
			delete(r.rows, number)
		}
		return err
	case kindStream:
		delete(r.streams, string(key))
		return nil
	case kindChunk:
		number, rest, err := cutNumber(key)
		delete(r.chunks, number)
		return whole(rest, err)
	case kindOrigin:
		r.origin = false
	case kindHead:
		r.head = head{}
	case kindBarrier:
		r.barrier, r.user = kafka.Producer{}, ""
	case kindLog:
		r.log = checkpoint.Log{}
	default:
		return errKey
	}
	return whole(key, nil)
}

func (r *replay) set(kind byte, key, body []byte) (err error) {
	switch kind {
	case kindRow:
		return r.setRow(key, body)
	case kindStream:
		r.streams[string(key)], err = decodeStream(body)
		return err
	case kindChunk:
		number, rest, err := cutNumber(key)
		r.chunks[number] = body
		return whole(rest, err)
	case kindOrigin:
		r.origin, err = true, whole(body, nil)
	case kindHead:
		r.head, err = decodeHead(body)
	case kindBarrier:
		r.barrier, r.user, err = decodeBarrier(body)
		return err
	case kindLog:
		r.log, err = codec.DecodeLog(body)
	default:
		return errKey
	}
	return whole(key, err)
}

func (r *replay) setRow(key, body []byte) error {
	number, key, err := cutNumber(key)
	if err != nil {
		return err
	}
	text, row, err := codec.DecodeRow(key, body)
	if err != nil {
		return err
	}
	rows := r.rows[number]
	if rows == nil {
		rows = map[string]checkpoint.Row{}
		r.rows[number] = rows
	}
	rows[text] = row
	return nil
}

func cutNumber(key []byte) (number uint64, rest []byte, err error) {
	number, n := binary.Uvarint(key)
	if n <= 0 {
		return 0, nil, errKey
	}
	return number, key[n:], nil
}

// whole refuses a key that has something behind its end.
func whole(rest []byte, err error) error {
	if err == nil && len(rest) > 0 {
		return errKey
	}
	return err
}
