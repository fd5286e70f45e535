// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// recorder is the far side: it writes down what it is told.
type recorder struct {
	resume string
	known  []source.Ident
	// relist: the history knows resume, but not of these selectors.
	relist bool
	// remember: the history knows what was delivered.
	remember bool
	// refuse, if it is not nil, is asked what to answer to a note.
	refuse func(p source.Progress) error
	// onCall is told of every call, and when its context ends, if it has one.
	onCall func(call string, done <-chan struct{})

	mu      sync.Mutex
	lines   []string
	open    map[source.Ticket]bool
	tickets source.Ticket
	states  []string
	reasons []string
	notes   []source.Progress
	// recovering says of each note of that kind what stood before it.
	recovering []string
	// delivering is held by whoever hands over.
	delivering sync.Mutex
	// over: the reader has ended, and must not call any more.
	over bool
}

func (r *recorder) call(call string, done <-chan struct{}) {
	r.mu.Lock()
	if r.over {
		r.lines = append(r.lines, "BUG: "+call+" after the end")
	}
	r.mu.Unlock()
	if r.onCall != nil {
		r.onCall(call, done)
	}
}

func (r *recorder) Admit(ctx context.Context, version string, _ int) (source.Ticket, error) {
	r.call("admit "+version, ctx.Done())
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.open = map[source.Ticket]bool{}
	}
	r.tickets++
	r.open[r.tickets] = true
	return r.tickets, nil
}

func (r *recorder) Deliver(c source.Change) {
	alone := r.delivering.TryLock()
	r.call("deliver", nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	if alone {
		r.delivering.Unlock()
	} else {
		r.lines = append(r.lines, "BUG: two deliver at a time")
	}
	if c.Listed != (c.Reason != source.ReasonWatch) {
		r.lines = append(r.lines, fmt.Sprintf("BUG: listed is %v of a change by %s", c.Listed, c.Reason))
	}
	if !r.open[c.Ticket] {
		r.lines = append(r.lines, "BUG: change without an open ticket")
	}
	delete(r.open, c.Ticket)
	var got struct {
		Kind     string
		Metadata struct{ Name, UID, ResourceVersion string }
	}
	if err := json.Unmarshal(c.Body.Bytes(), &got); err != nil || got.Kind != "ConfigMap" || got.Metadata.Name != c.Name ||
		got.Metadata.UID != c.UID || got.Metadata.ResourceVersion != c.ResourceVersion {
		r.lines = append(r.lines, fmt.Sprintf("BUG: body of %s is %s", c.Name, c.Body.Bytes()))
	}
	if c.Size != source.ChangeSize(len(c.Body.Bytes())) {
		r.lines = append(r.lines, fmt.Sprintf("BUG: %d bytes bought for %d", c.Size, len(c.Body.Bytes())))
	}
	c.Body.Release()
	r.lines = append(r.lines, fmt.Sprintf("%s %s@%s %s", c.Op, c.Name, c.ResourceVersion, c.Reason))
	if r.remember {
		r.know(c)
	}
}

func (r *recorder) know(c source.Change) {
	r.known = slices.DeleteFunc(slices.Clone(r.known), func(id source.Ident) bool { return id.Key() == c.Key() })
	if c.Op != source.Deleted {
		r.known = append(r.known, c.Ident)
	}
}

// allCurrent returns what a history knows.
func allCurrent(known []source.Ident) iter.Seq2[source.Ident, bool] {
	return func(yield func(source.Ident, bool) bool) {
		for _, id := range known {
			if !yield(id, true) {
				return
			}
		}
	}
}

func (r *recorder) Resume() (string, iter.Seq2[source.Ident, bool], bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.resume, allCurrent(slices.Clone(r.known)), r.resume != "" && !r.relist
}

func (r *recorder) Note(ctx context.Context, p source.Progress) error {
	word := map[source.ProgressKind]string{
		source.Bookmark: "bookmark", source.SnapshotStarted: "snapshot", source.Gap: "gap",
		source.Listed: "listed",
	}[p.Kind]
	r.call(word, ctx.Done())
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.Kind == source.Recovering {
		r.recovering = append(r.recovering, fmt.Sprintf("%d lines, then what precedes %s", len(r.lines), p.Version))
		return nil
	}
	r.lines = append(r.lines, word+" "+p.Version)
	r.notes = append(r.notes, p)
	if r.refuse != nil {
		return r.refuse(p)
	}
	return nil
}

func (r *recorder) State(s source.State, err error) {
	r.call("state", nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	line := s.String()
	if err != nil {
		line += ": " + err.Error()
	}
	r.states = append(r.states, line)
}

func (r *recorder) Restarted(reason string) {
	r.call("restarted", nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reasons = append(r.reasons, reason)
}

func (r *recorder) seen() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lines)
}
