// SPDX-License-Identifier: Apache-2.0

package tail

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// Lines makes of messages the lines that a [Table] has of them, as they are published. What an update changed is said
// where the state before it was published by the same process, and not too long ago. Methods may be called
// concurrently; all lines are those of one table.
type Lines struct {
	mu     sync.Mutex
	out    bytes.Buffer
	table  *Table
	memory *memory
}

// NewLines returns the lines of a table that looks like cfg.
func NewLines(cfg TableConfig) *Lines {
	l := &Lines{memory: newMemory(memoryBytes)}
	l.table = NewTable(&l.out, cfg)
	return l
}

// Append appends the line of a message to b, with the line of the columns' names before the first one; number is its
// place in what is printed. It keeps a copy of the message, and leaves the message as it is.
func (l *Lines) Append(b []byte, m *sink.Message, number uint64) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, err := event.Decode(event.Message{Subject: m.Subject, Stored: sink.Stored{
		Sequence: number, ID: m.ID, Attributes: slices.Clone(m.Attributes), ContentType: m.ContentType,
		Data: slices.Clone(m.Data), Time: time.Now(),
	}})
	if err != nil {
		return b, err
	}
	l.out.Reset()
	if err := l.table.Print(e, func() *event.Event { return l.previous(e) }); err != nil {
		return b, err
	}
	if !e.Op.Marker() {
		l.memory.remember(e)
	}
	return append(b, l.out.Bytes()...), nil
}

func (l *Lines) previous(e *event.Event) *event.Event {
	if p := l.memory.last(e); p != nil {
		return before(p, e)
	}
	return nil
}
