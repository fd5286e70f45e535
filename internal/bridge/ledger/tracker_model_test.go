// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// modelEvent is something the stream showed: a ticket, or a bookmark.
type modelEvent struct {
	version           int // 0: none
	bookmark, settled bool
	barrier           bool
	ready             int
	ticket            uint64
}

type model struct {
	start  int
	events []*modelEvent
}

// position applies the rule literally: the greatest version v with every entry up to the last of v settled, and a
// greater version or a bookmark of v shown.
func (m *model) position() int {
	best := m.start
	for j, e := range m.events {
		if e.bookmark && m.settledBefore(j) {
			best = max(best, e.version)
		}
		if e.bookmark || e.version == 0 {
			continue
		}
		for i := j + 1; i < len(m.events); i++ {
			if m.events[i].version > e.version && m.settledBefore(m.lastOf(e.version)+1) {
				best = max(best, e.version)
			}
		}
	}
	return best
}

func (m *model) lastOf(version int) (last int) {
	for i, e := range m.events {
		if e.version == version {
			last = i
		}
	}
	return last
}

func (m *model) settledBefore(j int) bool {
	return !slices.ContainsFunc(m.events[:j], func(e *modelEvent) bool { return !e.bookmark && !e.settled })
}

func (m *model) open() (open []*modelEvent) {
	for _, e := range m.events {
		if !e.bookmark && !e.settled {
			open = append(open, e)
		}
	}
	return open
}

func word(version int) string {
	if version == 0 {
		return ""
	}
	return strconv.Itoa(version)
}

func TestTracker_equals_the_rule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{start: rapid.IntRange(0, 9).Draw(t, "start")}
		tr, last, bookmarked := NewTracker(word(m.start)), m.start, true
		next := func() int {
			least := 0
			if bookmarked || last == 0 {
				least = 1
			}
			return last + rapid.IntRange(least, 3).Draw(t, "step")
		}
		add := func(e *modelEvent) { m.events = append(m.events, e) }
		t.Repeat(map[string]func(*rapid.T){
			"open": func(*rapid.T) {
				last, bookmarked = next(), false
				add(&modelEvent{version: last, ticket: tr.Open(word(last), epoch)})
			},
			"list": func(*rapid.T) {
				add(&modelEvent{ticket: tr.Open("", epoch)})
			},
			"barrier": func(*rapid.T) {
				e := &modelEvent{barrier: true}
				e.ticket = tr.OpenBarrier(epoch, func() { e.ready++ })
				add(e)
			},
			"bookmark": func(*rapid.T) {
				if next := last + rapid.IntRange(0, 3).Draw(t, "step"); next > 0 {
					last, bookmarked = next, true
					add(&modelEvent{version: last, bookmark: true})
					tr.Bookmark(word(last))
				}
			},
			"settle": func(t *rapid.T) {
				if open := m.open(); len(open) > 0 {
					e := rapid.SampledFrom(open).Draw(t, "which")
					if !e.barrier || e.ready > 0 {
						e.settled = true
						tr.Settle(e.ticket)
					}
				}
			},
			"": func(t *rapid.T) {
				got, want := tr.Position(), word(m.position())
				require.Equal(t, want, got, "position")
				require.Equal(t, len(m.open()), tr.Pending(), "pending")
				for j, e := range m.events {
					if turn := m.settledBefore(j); e.barrier && (e.ready > 1 || (e.ready == 1) != turn) {
						t.Fatalf("barrier %d ready %d times, its turn has come: %v", e.ticket, e.ready, turn)
					}
				}
			},
		})
	})
}

// Whatever order a server shows versions in, also one that goes back: a restart at the position shows again what is
// not settled.
func TestTracker_loses_nothing_when_versions_go_back(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr, open, position := NewTracker("100"), map[uint64]int{}, 100
		t.Repeat(map[string]func(*rapid.T){
			"open": func(t *rapid.T) {
				v := position + rapid.IntRange(1, 12).Draw(t, "version")
				open[tr.Open(word(v), epoch)] = v
			},
			"bookmark": func(t *rapid.T) { tr.Bookmark(word(position + rapid.IntRange(-3, 8).Draw(t, "version"))) },
			"settle": func(t *rapid.T) {
				if len(open) > 0 {
					ticket := rapid.SampledFrom(keysOf(open)).Draw(t, "which")
					delete(open, ticket)
					tr.Settle(ticket)
				}
			},
			"": func(t *rapid.T) {
				now := must.Get(strconv.Atoi(tr.Position()))(t)
				require.GreaterOrEqual(t, now, position, "position went from %d to %q", position, tr.Position())
				position = now
				for ticket, v := range open {
					require.Greater(t, v, position, "ticket %d at %d is not settled", ticket, v)
				}
			},
		})
	})
}

func keysOf(m map[uint64]int) []uint64 { return slices.Sorted(maps.Keys(m)) }
