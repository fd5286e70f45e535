// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"time"
)

// summary prints what was promised and whether the log keeps it, and returns whether it keeps all of it.
func (p *play) summary(took time.Duration) bool {
	s := p.screen
	s.heading("What the log has")
	missed, deletions := p.missing()
	all := true
	check := func(holds bool, format string, args ...any) {
		all = all && holds
		mark := s.green("✓")
		if !holds {
			mark = s.red("✗")
		}
		s.say("  %s %s", mark, fmt.Sprintf(format, args...))
	}
	check(missed == 0, "every change is in the log: %d of %d, %d deletions among them", len(p.changes)-missed,
		len(p.changes), deletions)
	check(p.log.has(p.tells(p.away, p.back)...), "so are the %d made while the bridge was away", p.back-p.away)
	repeated := p.log.repeated()
	check(len(repeated) == 0, "nothing is repeated: %d events with %d different ids%s", len(p.log.events),
		len(p.log.times), list(repeated))
	backwards := p.log.backwards()
	check(len(backwards) == 0, "in order: the sequences of each of %d objects only rise%s",
		p.log.objects(), list(backwards))
	gaps := p.log.count("stream.gap.v1", "") + p.log.count("resource.rejected.v1", "")
	check(gaps == 0, "nothing is unknown: %d gaps, %d events refused", p.log.count("stream.gap.v1", ""),
		p.log.count("resource.rejected.v1", ""))
	leaks := p.log.leaks(password)
	check(len(leaks) == 0, "the Secret's value is in no event%s", list(leaks))
	s.say("\n  %s", p.lag())
	s.say("  %d events in %s, %d of them after the restart, which took %s",
		len(p.log.events), round(took), len(p.log.events)-p.before, round(p.caught))
	if all {
		s.say("  %s", s.green(s.bold("All of it holds.")))
	}
	return all
}

// missing counts the changes that are not in the log, and all deletions.
func (p *play) missing() (missed, deletions int) {
	for _, c := range p.changes {
		if !p.log.has(c.tells) {
			missed++
		}
		if c.deletion {
			deletions++
		}
	}
	return missed, deletions
}

// tells returns what the events of the changes from one to before another tell.
func (p *play) tells(from, to int) []string {
	var tells []string
	for _, c := range p.changes[from:to] {
		tells = append(tells, c.tells)
	}
	return tells
}

// lag says how long it took, at the median, from the answer to a write until the broker had its event, while the bridge
// ran. An event may well come before the answer: the API server has then told its watchers already.
func (p *play) lag() string {
	stored := map[string]time.Time{}
	for _, e := range p.log.events {
		stored[e.tells] = e.stored
	}
	var lags []time.Duration
	for i, c := range p.changes {
		if t, ok := stored[c.tells]; ok && (i < p.away || i >= p.back) {
			lags = append(lags, t.Sub(c.answered))
		}
	}
	if len(lags) == 0 {
		return "no event came while the bridge ran"
	}
	slices.Sort(lags)
	median := lags[len(lags)/2].Round(100 * time.Microsecond)
	if median <= 0 {
		return "half of the events were in the log before the API server had answered their writes"
	}
	return fmt.Sprintf("half of the events were in the log within %s of the API server's answers to their writes", median)
}

// backwards returns the ids of events that do not have a greater sequence than those before them of the same object.
func (l *eventLog) backwards() []string {
	newest := map[string]string{}
	var ids []string
	for _, e := range l.events {
		if !e.ofObject() {
			continue
		}
		if e.sequence <= newest[e.subject] {
			ids = append(ids, e.id)
		}
		newest[e.subject] = max(newest[e.subject], e.sequence)
	}
	return ids
}

// objects counts the objects that the log has events of.
func (l *eventLog) objects() int {
	names := map[string]bool{}
	for _, e := range l.events {
		if e.ofObject() {
			names[e.subject] = true
		}
	}
	return len(names)
}

func (e event) ofObject() bool {
	return e.kind == "resource.added.v1" || e.kind == "resource.updated.v1" || e.kind == "resource.deleted.v1"
}

// leaks returns the ids of events that a value can be read from.
func (l *eventLog) leaks(value string) []string {
	var ids []string
	for _, e := range l.events {
		if bytes.Contains(e.raw, []byte(value)) || bytes.Contains(e.raw,
			[]byte(base64.StdEncoding.EncodeToString([]byte(value)))) {
			ids = append(ids, e.id)
		}
	}
	return ids
}

// list is the end of a sentence about what should not be.
func list(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	return fmt.Sprintf(", but: %q", ids)
}
