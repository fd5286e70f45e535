// SPDX-License-Identifier: Apache-2.0

// Package bodies returns the events of a log by their places, for who keeps only those.
package bodies

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
)

// cacheBytes is how much of what was read lately is kept for the workers.
const cacheBytes = 24 << 20

// mapsBytes is about what an event takes beside its text: maps of its headers and attributes.
const mapsBytes = 3 << 10

func sizeOf(e *event.Event) int { return e.Size() + mapsBytes }

// Log is what is asked for events.
type Log interface {
	event.Log
	event.Bodies
}

// mostDropped is how many places may be kept of events that are not, behind one that is.
const mostDropped = 64

// Bodies returns events by their place in the log: those read lately from memory, others from the log. It is safe for
// concurrent use.
type Bodies struct {
	log Log

	mu    sync.Mutex
	size  int
	order []uint64
	byPos map[uint64]*event.Event
}

// New returns the bodies of a log.
func New(log Log) *Bodies {
	return &Bodies{log: log, byPos: make(map[uint64]*event.Event)}
}

// Put keeps an event for a while.
func (b *Bodies) Put(e *event.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, again := b.byPos[e.Position]; again {
		return
	}
	b.byPos[e.Position] = e
	b.order = append(b.order, e.Position)
	b.size += sizeOf(e)
	for b.size > cacheBytes && len(b.order) > 1 {
		b.forget(b.order[0])
		b.order = b.order[1:]
	}
	if len(b.order) > 2*len(b.byPos)+mostDropped {
		b.order = slices.DeleteFunc(b.order, func(p uint64) bool { return b.byPos[p] == nil })
	}
}

// Kept returns how many places it keeps.
func (b *Bodies) Kept() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.order)
}

// Drop says that an event is not needed any more.
func (b *Bodies) Drop(position uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forget(position)
	for len(b.order) > 0 && b.byPos[b.order[0]] == nil {
		b.order = b.order[1:]
	}
}

func (b *Bodies) forget(position uint64) {
	if e := b.byPos[position]; e != nil {
		b.size -= sizeOf(e)
		delete(b.byPos, position)
	}
}

// ErrGone says that the log does not have an event any more.
var ErrGone = errors.New("the log does not have the event any more")

// Get returns the event at a place. The error is ErrGone, or says why the log did not answer.
func (b *Bodies) Get(ctx context.Context, position uint64) (*event.Event, error) {
	b.mu.Lock()
	e := b.byPos[position]
	b.mu.Unlock()
	if e != nil {
		return e, nil
	}
	m, err := b.log.At(ctx, position)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read event %d again: %w", position, err)
	case m == nil:
		return nil, ErrGone
	}
	return event.Decode(*m)
}

// mostPatches bounds how many patches are put together.
const mostPatches = 1000

// Whole returns the event with the whole object: of a merge patch together with what it applies to. It returns nil if
// the log does not have that. Redacted: values are replaced in the event, or in what it applies to.
func (b *Bodies) Whole(ctx context.Context, e *event.Event) (whole *event.Event, redacted bool) {
	chain := []*event.Event{e}
	for e.Attr("payload") == "merge-patch" {
		m := b.log.Before(ctx, &e.Message)
		if m == nil || len(chain) > mostPatches {
			return nil, false
		}
		before, err := event.Decode(*m)
		if err != nil || !e.AppliesTo(before) {
			return nil, false
		}
		chain = append(chain, before)
		e = before
	}
	redacted = slices.ContainsFunc(chain, func(e *event.Event) bool { return e.Attr("redacted") == "true" })
	for i := len(chain) - 2; i >= 0; i-- {
		e = event.Fold(chain[i], e)
	}
	if _, _, ok := e.States(); !ok {
		return nil, false
	}
	return e, redacted
}
