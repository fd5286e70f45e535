// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"maps"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/codec"
)

// change is what a commit does to the log.
type change struct {
	store *Store
	batch *checkpoint.Batch
	// contents are those after the commit, before are the numbers before it.
	contents
	before map[string]uint64
}

func (s *Store) plan(b *checkpoint.Batch) *change {
	c := &change{store: s, batch: b, contents: contents{s.head, maps.Clone(s.numbers)}, before: s.numbers}
	c.head.number++
	c.head.identity = s.session.Want
	for _, name := range b.Forget {
		delete(c.numbers, name)
	}
	for name := range b.Streams {
		c.number(name)
	}
	for name, rows := range b.Put {
		if len(rows) > 0 {
			c.number(name)
		}
	}
	return c
}

// number gives a number to a stream that has none.
func (c *change) number(name string) {
	if _, known := c.numbers[name]; !known {
		c.head.last++
		c.numbers[name] = c.head.last
	}
}

// records are all of the commit but the head. A value is good until the next one.
func (c *change) records(yield func(key string, value []byte) bool) {
	_ = c.streams(yield) && c.log(yield) && c.rows(yield)
}

func (c *change) streams(yield func(key string, value []byte) bool) bool {
	s := c.store
	for name := range c.before {
		if _, kept := c.numbers[name]; !kept && !yield(s.log.keys.stream(name), nil) {
			return false
		}
	}
	for name, number := range c.numbers {
		out := stream{number: number}
		state, changed := c.batch.Streams[name]
		if changed {
			out.state = &state
		} else if c.before[name] == number {
			continue
		}
		s.value = appendStream(s.value[:0], out)
		if !yield(s.log.keys.stream(name), s.value) {
			return false
		}
	}
	return true
}

func (c *change) log(yield func(key string, value []byte) bool) bool {
	s := c.store
	if c.batch.Log == nil {
		return true
	}
	s.value = codec.AppendLog(append(s.value[:0], format), c.batch.Log)
	return yield(s.log.keys.plain(kindLog), s.value)
}

func (c *change) rows(yield func(key string, value []byte) bool) bool {
	s := c.store
	for name, rows := range c.batch.Put {
		number := c.numbers[name]
		for key, row := range rows {
			s.value = codec.AppendRow(append(s.value[:0], format), &row)
			if !yield(s.log.keys.row(number, key), s.value) {
				return false
			}
		}
	}
	for name, keys := range c.batch.Drop {
		number, known := c.numbers[name]
		if !known {
			continue // it has no rows
		}
		for _, key := range keys {
			if !yield(s.log.keys.row(number, key), nil) {
				return false
			}
		}
	}
	return true
}

// arrives returns what is true once the head is in the log.
func (c *change) arrives(chunks uint64) func() {
	return func() {
		s := c.store
		s.contents = c.contents
		s.head.chunks = chunks
	}
}
