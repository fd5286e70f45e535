// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

const (
	// keepMemory is how much of a batch's memory is kept for another one: that of the largest that is filled.
	keepMemory = batch.DefaultLimit + 1<<10
	// keepLoads is how many loads are kept, whatever the number of partitions.
	keepLoads = 32
)

// load is a batch and whose messages are in it.
type load struct {
	builder batch.Builder
	entries []entry
	// large says that its only message is larger than the topic takes uncompressed.
	large bool
}

// entry is a message in a load. done is told where its first record is.
type entry struct {
	m       *sink.Message
	done    sink.Done
	records int
}

// scribe writes messages as records. It is used by one goroutine at a time.
type scribe struct {
	names      *names
	clock      *kafka.Clock
	tombstones bool
	headers    []batch.Header
}

// append adds a message to a load, if it is not larger then than limit bytes.
func (w *scribe) append(l *load, m *sink.Message, done sink.Done, limit int) bool {
	now := w.clock.Now().UnixMilli()
	e, last := entry{m: m, done: done, records: 1}, batch.Record{Key: m.Key, Timestamp: now}
	if w.tombstones && m.Last {
		e.records = 2
		limit -= tombstoneSize(m.Key)
	}
	value := m.Data
	if value == nil {
		value = []byte{} // a null value would be a tombstone
	}
	w.headers = w.names.headers(w.headers[:0], m)
	fits := l.builder.Append(&batch.Record{Key: m.Key, Value: value, Headers: w.headers, Timestamp: now}, limit)
	clear(w.headers)
	if !fits {
		return false
	}
	if e.records == 2 {
		l.builder.Append(&last, unlimited)
	}
	l.entries = append(l.entries, e)
	return true
}

// tombstoneSize is at least what a tombstone adds to a batch: its key, the numbers before and behind it, and the length
// of all that.
func tombstoneSize(key string) int { return len(key) + 40 }

// depot has loads to be filled again.
type depot chan *load

// take returns an empty load.
func (d depot) take() *load {
	select {
	case l := <-d:
		return l
	default:
		return &load{}
	}
}

// put takes a load that was settled. sent says that it was sent more than once: a connection may still read its memory,
// so that it is let go.
func (d depot) put(l *load, sent bool) {
	if sent {
		return
	}
	clear(l.entries)
	l.entries, l.large = l.entries[:0], false
	l.builder.Reset(keepMemory)
	select {
	case d <- l:
	default:
	}
}
