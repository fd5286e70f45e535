// SPDX-License-Identifier: Apache-2.0

// Package tail reads a log back and shows it to a person: what happened to which object, who did it, and what
// changed.
//
// It shows what the log has and nothing else: where the state of an object before an update is not in the log any more,
// nothing is said about what changed. Values of Secrets are shown as they come, never decoded. Nothing from the log
// reaches a terminal as a control sequence.
package tail

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

// Config says what is read and how it is shown.
type Config struct {
	event.Span
	Filter  Filter
	Printer Printer
	// Notice is told, in a line for a person, what is unusual about the messages, and at the end of what was asked for
	// which part of the Filter matched none of them; nil: no caller is.
	Notice func(line string)
}

// unmatchedAfter is how long what is followed may match nothing until that is said.
const unmatchedAfter = 10 * time.Second

// memoryBytes holds some ten thousand objects.
const memoryBytes = 64 << 20

// Run shows a log. It returns nil when ctx ended or everything asked for has been shown. It returns an error when the
// log cannot be read, has the format of an older version, or the Printer fails. While the broker is away it waits.
func Run(ctx context.Context, log event.Log, cfg Config) error {
	if cfg.Notice == nil {
		cfg.Notice = func(string) {}
	}
	v := &viewer{cfg: &cfg, memory: newMemory(memoryBytes), log: log, seen: newSeen(cfg.Filter.Resources)}
	_, v.blind = cfg.Printer.(JSON)
	reading, done := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	waiting.Go(func() { v.sayUnmatched(reading) })
	err := log.Read(ctx, event.Reading{Span: cfg.Span, Each: v.show, Counts: v.shown, Replaced: v.memory.clear})
	done()
	waiting.Wait()
	if ctx.Err() != nil {
		return nil
	}
	if err == nil {
		v.conclude()
	}
	return err
}

// viewer turns messages into lines.
type viewer struct {
	cfg    *Config
	memory *memory
	log    event.Log
	// strange says that the notice about messages that are no events was given.
	strange bool
	// mu guards seen and matched.
	mu   sync.Mutex
	seen *seen
	// matched says that an event was printed that was asked for.
	matched bool
	// blind says that the printer never asks what was before.
	blind bool
}

// show prints m where the filter shows it.
func (v *viewer) show(ctx context.Context, m event.Message) error {
	e, err := event.Decode(m)
	if err != nil {
		if !v.strange {
			v.strange = true
			v.cfg.Notice(fmt.Sprintf("message %s on %s is skipped, and others like it: %v", m.Location(), Printable(m.Subject),
				err))
		}
		return nil
	}
	if err := e.OldFormat(); err != nil {
		return err
	}
	v.mu.Lock()
	v.seen.note(e)
	v.mu.Unlock()
	if !v.cfg.Filter.covers(e) {
		return nil
	}
	if v.cfg.Filter.Shows(e) {
		v.mu.Lock()
		v.matched = v.matched || v.cfg.Filter.asksFor(e)
		v.mu.Unlock()
		err = v.cfg.Printer.Print(e, func() *event.Event { return v.previous(ctx, e) })
	}
	if !v.blind && !e.Op.Marker() {
		v.memory.remember(e)
	}
	return err
}

// sayUnmatched gives notice, once, that what is followed has matched nothing for a while: a name may be misspelt.
func (v *viewer) sayUnmatched(ctx context.Context) {
	f := &v.cfg.Filter
	if !v.cfg.Follow || len(f.Resources)+len(f.Namespaces)+len(f.Names) == 0 || pause.For(ctx, unmatchedAfter) != nil {
		return
	}
	v.mu.Lock()
	matched, missing, resources := v.matched, v.seen.missing(), v.seen.resources()
	v.mu.Unlock()
	switch {
	case missing == "" && matched:
	case missing == "":
		v.cfg.Notice("no event matches so far; it goes on waiting")
	case resources == "":
		v.cfg.Notice("no event has come yet; it goes on waiting for " + missing)
	default:
		v.cfg.Notice("no event matches " + missing + " so far; those read are about " + resources + "; it goes on waiting")
	}
}

// conclude gives notice of what was looked for in vain.
func (v *viewer) conclude() {
	missing, resources := v.seen.missing(), v.seen.resources()
	switch {
	case missing != "" && resources != "":
		v.cfg.Notice("no event matches " + missing + "; those read are about " + resources)
	case v.matched:
	case v.cfg.Start == (event.Start{}) && !v.cfg.Follow:
		v.cfg.Notice("no event matches: reading began at the end of the log; begin earlier with --from-start, --since or " +
			"--last")
	default:
		v.cfg.Notice("no event matches")
	}
}

// shown reports whether show would print m.
func (v *viewer) shown(m event.Message) bool {
	e, err := event.Decode(m)
	return err == nil && v.cfg.Filter.Shows(e)
}

// previous returns what the events before e tell of the same object, nil where the log does not have them or they do
// not say what it was. Of patches it knows those that were read, and where none was, the one before e.
func (v *viewer) previous(ctx context.Context, e *event.Event) *event.Event {
	p := v.memory.last(e)
	if p == nil {
		m := v.log.Before(ctx, &e.Message)
		if m == nil {
			return nil
		}
		var err error
		if p, err = event.Decode(*m); err != nil || keyOfObject(p) != keyOfObject(e) {
			return nil
		}
		if !p.Op.Marker() {
			v.memory.put(p)
		}
	}
	return before(p, e)
}

// before returns p where it has the state of e's object, whole or as a merge patch, else nil.
func before(p, e *event.Event) *event.Event {
	_, _, whole := p.States()
	patch := p.Op == event.Updated && p.Attr("payload") == "merge-patch"
	if !whole && !patch || p.Attr("objectuid") != e.Attr("objectuid") {
		return nil
	}
	return p
}
