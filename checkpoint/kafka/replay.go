// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/codec"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/session"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
)

// reader is what a partition is read with.
type reader interface {
	Bounds(ctx context.Context, topic string, partitions int) (map[int32]kafka.Bounds, error)
	Fetch(ctx context.Context, topic string, partition int32, offset int64, f func(*kafka.Record) error) (next, end int64,
		err error)
}

// cursor reads a partition, in which the checkpoint's keys have a prefix.
type cursor struct {
	session   *session.Session
	from      reader
	topic     string
	partition int32
	prefix    string
	// next is the offset to go on from.
	next int64
}

// fetchTo calls do with what is before end and was not read yet.
func (c *cursor) fetchTo(ctx context.Context, end int64, do func(*kafka.Record) error) error {
	for c.next < end {
		err := again(ctx, c.session.Patience, func() (err error) {
			before := c.next
			c.next, _, err = c.from.Fetch(ctx, c.topic, c.partition, before, do)
			if err == nil && c.next == before {
				return fmt.Errorf("read %s/%d: it ends at offset %d, and has had %d", c.topic, c.partition, before, end)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// damaged says that the topic has something under the checkpoint's keys that cannot be understood, or lacks something.
func (c *cursor) damaged(offset int64, err error) error {
	return &checkpoint.DamagedError{
		Path: c.session.Path, Err: fmt.Errorf("partition %d, offset %d: %w", c.partition, offset, err),
		Advice: "find out who wrote to or deleted from the topic, and name another topic",
	}
}

// replay is what a partition says of one checkpoint, as far as it has been read. Its memory is that of the state, and
// of one commit's chunks.
type replay struct {
	cursor

	origin bool
	// head has the number 0 where there is none; saved is when it was written.
	head    head
	saved   time.Time
	barrier kafka.Producer
	// user is the process that uses the checkpoint; empty if it has closed it. Records counts those of the checkpoint.
	user    string
	records int
	log     checkpoint.Log
	streams map[string]stream
	rows    map[uint64]map[string]checkpoint.Row
	chunks  map[uint64][]byte
	// foreign are the records of other formats, by key, that no later record has replaced.
	foreign map[string]foreign
}

// foreign is a record that another version has written.
type foreign struct {
	format byte
	offset int64
}

func newReplay(c cursor) *replay {
	return &replay{
		cursor: c, streams: map[string]stream{}, rows: map[uint64]map[string]checkpoint.Row{},
		chunks: map[uint64][]byte{}, foreign: map[string]foreign{},
	}
}

// readTo reads what is before end. After an error it may be called again.
func (r *replay) readTo(ctx context.Context, end int64) error { return r.fetchTo(ctx, end, r.record) }

func (r *replay) record(record *kafka.Record) error {
	key, ours := cutPrefix(record.Key, r.prefix)
	if !ours {
		return nil
	}
	r.records++
	err := r.take(key, record.Value)
	var unknown codec.UnknownFormat
	switch {
	case err == nil:
		delete(r.foreign, string(key))
		if key[0] == kindHead {
			r.saved = record.Time
		}
		return nil
	case errors.As(err, &unknown):
		r.foreign[string(key)] = foreign{byte(unknown), record.Offset}
		return nil
	default:
		return r.damaged(record.Offset, err)
	}
}

func cutPrefix(key []byte, prefix string) (after []byte, found bool) {
	if len(key) < len(prefix) || string(key[:len(prefix)]) != prefix {
		return nil, false
	}
	return key[len(prefix):], true
}

// begun reports whether there is something of a checkpoint that was committed.
func (r *replay) begun() bool { return r.head.number > 0 || len(r.foreign) > 0 }

// formatError returns the error of the first record that another version has written; nil if there is none.
func (r *replay) formatError() error {
	if len(r.foreign) == 0 {
		return nil
	}
	first := foreign{offset: math.MaxInt64}
	for _, record := range r.foreign {
		if record.offset < first.offset {
			first = record
		}
	}
	return &checkpoint.FormatError{
		Path: r.session.Path, Format: strconv.Itoa(int(first.format)),
		Where: fmt.Sprintf("partition %d, offset %d", r.partition, first.offset),
	}
}

// admit refuses what is not want's or of another format, and what has lost its beginning.
func (r *replay) admit(want checkpoint.Identity) error {
	if err := r.formatError(); err != nil {
		return err
	}
	switch {
	case r.head.number == 0:
		return nil
	case r.head.identity != want:
		return &checkpoint.ForeignError{Path: r.session.Path, Has: r.head.identity, Want: want}
	case !r.origin:
		return r.damaged(r.next, errors.New("what is oldest was deleted, as compaction does not do"))
	default:
		return nil
	}
}

// admitWhole admits what was read to the end, and finishes it.
func (r *replay) admitWhole(want checkpoint.Identity) error {
	if err := r.admit(want); err != nil {
		return err
	}
	return r.finish()
}

// finish does, when all is read, what the chunks say that the head speaks of, and checks what can be seen only then.
func (r *replay) finish() error {
	for n := range r.head.chunks {
		if err := r.chunk(n, func(key, value []byte) error { return r.take(key, value) }); err != nil {
			return r.damaged(r.next, fmt.Errorf("chunk %d of %d: %w", n, r.head.chunks, err))
		}
	}
	if r.head.number == 0 && len(r.streams)+len(r.rows) > 0 {
		return r.damaged(r.next, errors.New("there are rows without a head"))
	}
	for name, s := range r.streams {
		if s.number > r.head.last {
			return r.damaged(r.next, fmt.Errorf("stream %q has the number %d, and %d was the last", name, s.number, r.head.last))
		}
	}
	return nil
}

// chunk calls do with each change of a chunk that the head speaks of; the key is without the checkpoint's name.
func (r *replay) chunk(n uint64, do func(key, value []byte) error) error {
	body, ok := r.chunks[n]
	if !ok {
		return errors.New("it is missing")
	}
	d := codec.NewDecoder(body)
	if number := d.Uvarint(); number != r.head.number {
		return fmt.Errorf("it is of commit %d, not %d", number, r.head.number)
	}
	for len(d.Rest()) > 0 {
		key := d.Bytes(d.Uvarint())
		var value []byte
		if size := d.Uvarint(); size > 0 {
			value = d.Bytes(size - 1)
		}
		if d.Bad() {
			return errRest
		}
		if err := do(key, value); err != nil {
			return err
		}
	}
	return nil
}

// state returns what the checkpoint has. It shares its maps with the replay.
func (r *replay) state() *checkpoint.State {
	state := &checkpoint.State{
		Identity: r.head.identity, Log: r.log,
		Streams: map[string]checkpoint.Stream{}, Rows: map[string]map[string]checkpoint.Row{},
	}
	for name, s := range r.streams {
		if s.state != nil {
			state.Streams[name] = *s.state
		}
		if rows := r.rows[s.number]; len(rows) > 0 {
			state.Rows[name] = rows
		}
	}
	return state
}

// numbers returns those of the streams.
func (r *replay) numbers() map[string]uint64 {
	numbers := make(map[string]uint64, len(r.streams))
	for name, s := range r.streams {
		numbers[name] = s.number
	}
	return numbers
}

// litter returns the keys of the rows of streams that were forgotten.
func (r *replay) litter(k *keys) (litter []string) {
	used := map[uint64]bool{}
	for _, s := range r.streams {
		used[s.number] = true
	}
	for number, rows := range r.rows {
		if used[number] {
			continue
		}
		for key := range rows {
			litter = append(litter, k.row(number, key))
		}
	}
	return litter
}
