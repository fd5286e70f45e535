// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"fmt"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/codec"
)

// content is what commits have left, as it was written: values are parts of messages.
type content struct {
	// identity is the zero value where nothing was committed.
	identity checkpoint.Identity
	log      []byte
	streams  map[string][]byte
	rows     map[string]map[string][]byte
}

func newContent() *content {
	return &content{streams: map[string][]byte{}, rows: map[string]map[string][]byte{}}
}

// apply does what the records of a commit say.
func (c *content) apply(records []byte) error {
	d := codec.NewDecoder(records)
	var rows map[string][]byte
	for len(d.Rest()) > 0 {
		switch op := d.Bytes(1)[0]; op {
		case opIdentity:
			c.identity = d.Identity()
		case opLog:
			c.log = d.Bytes(d.Uvarint())
		case opForget:
			name := d.Text()
			delete(c.streams, name)
			delete(c.rows, name)
		case opStream:
			name := d.Text()
			c.streams[name] = d.Bytes(d.Uvarint())
		case opRowsOf:
			rows = c.rowsOf(d.Text())
		case opPut, opDrop:
			key := d.Bytes(d.Uvarint())
			if rows == nil {
				return fmt.Errorf("row %q is of no stream", key)
			}
			if op == opDrop {
				delete(rows, string(key))
			} else {
				rows[string(key)] = d.Bytes(d.Uvarint())
			}
		default:
			return fmt.Errorf("a record of kind %q", op)
		}
		if d.Bad() {
			return errRest
		}
	}
	return nil
}

func (c *content) rowsOf(name string) map[string][]byte {
	rows := c.rows[name]
	if rows == nil {
		rows = map[string][]byte{}
		c.rows[name] = rows
	}
	return rows
}

// records appends those that make the content where there is nothing.
func (c *content) records(b []byte) []byte {
	b = codec.AppendIdentity(append(b, opIdentity), c.identity)
	if c.log != nil {
		b = codec.AppendText(append(b, opLog), c.log)
	}
	for name, state := range c.streams {
		b = codec.AppendText(codec.AppendText(append(b, opStream), name), state)
	}
	for name, rows := range c.rows {
		if len(rows) == 0 {
			continue
		}
		b = codec.AppendText(append(b, opRowsOf), name)
		for key, row := range rows {
			b = codec.AppendText(codec.AppendText(append(b, opPut), key), row)
		}
	}
	return b
}

// state returns what the content means.
func (c *content) state() (*checkpoint.State, error) {
	state := &checkpoint.State{
		Identity: c.identity, Streams: make(map[string]checkpoint.Stream, len(c.streams)),
		Rows: make(map[string]map[string]checkpoint.Row, len(c.rows)),
	}
	var err error
	if c.log != nil {
		if state.Log, err = codec.DecodeLog(c.log); err != nil {
			return nil, fmt.Errorf("what is known of the log: %w", err)
		}
	}
	for name, b := range c.streams {
		if state.Streams[name], err = codec.DecodeStream(b); err != nil {
			return nil, fmt.Errorf("stream %q: %w", name, err)
		}
	}
	for name, raw := range c.rows {
		if len(raw) == 0 {
			continue
		}
		rows := make(map[string]checkpoint.Row, len(raw))
		for key, b := range raw {
			text, row, err := codec.DecodeRow([]byte(key), b)
			if err != nil {
				return nil, fmt.Errorf("row %q of stream %q: %w", key, name, err)
			}
			rows[text] = row
		}
		state.Rows[name] = rows
	}
	return state, nil
}
