// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// snapshot lists what exists as a stream's first list does. Objects are "name uid version".
func snapshot(t *testing.T, s *stream.Stream, version string, objects ...string) {
	t.Helper()
	list(t, s, source.Progress{Kind: source.SnapshotStarted, Version: version}, source.ReasonSnapshot, objects)
}

// relist lists what exists after a gap.
func relist(t *testing.T, s *stream.Stream, version string, objects ...string) {
	t.Helper()
	list(t, s, source.Progress{Kind: source.Gap, Version: version, Why: source.Why{Message: "compacted"}},
		source.ReasonRelist, objects)
}

func list(t *testing.T, s *stream.Stream, start source.Progress, reason source.Reason, objects []string) {
	t.Helper()
	note(t, s, start)
	for _, o := range objects {
		f := strings.Fields(o)
		send(t, s, source.Added, f[0], f[1], f[2], reason)
	}
	note(t, s, source.Progress{Kind: source.Listed, Version: start.Version, Objects: len(objects)})
}

// byObject sorts lines of a log by object, among which there is no order.
func byObject(a, b string) int { return strings.Compare(strings.Fields(a)[1], strings.Fields(b)[1]) }

// A process publishes, and dies before it commits. What happened while it was dead is found by a list.
func TestRestart_finds_deletions_whatever_was_not_committed(t *testing.T) {
	recreation := []source.Change{
		{Op: source.Deleted, Ident: source.Ident{UID: "u1", ResourceVersion: "11"}},
		{Op: source.Added, Ident: source.Ident{UID: "u2", ResourceVersion: "12"}},
	}
	for _, c := range []struct {
		name string
		// before is what the dead process published after its last commit, which knew a as u1 at version 5.
		before []source.Change
		exists []string
		want   []string
	}{
		{
			"an update, then it vanished",
			[]source.Change{{Op: source.Updated, Ident: source.Ident{UID: "u1", ResourceVersion: "11"}}},
			nil,
			[]string{"deleted default/a u1 11 relist"},
		},
		{
			"an update, then another took its name",
			[]source.Change{{Op: source.Updated, Ident: source.Ident{UID: "u1", ResourceVersion: "11"}}},
			[]string{"a u2 15"},
			[]string{"deleted default/a u1 11 relist", "added default/a u2 15 relist"},
		},
		{"its recreation, then that vanished", recreation, nil, []string{"deleted default/a u2 12 relist"}},
		{"its recreation, and nothing after", recreation, []string{"a u2 12"}, nil},
		{
			"its recreation, then one more", recreation,
			[]string{"a u3 15"},
			[]string{"deleted default/a u2 12 relist", "added default/a u3 15 relist"},
		},
		{
			"its deletion",
			[]source.Change{{Op: source.Deleted, Ident: source.Ident{UID: "u1", ResourceVersion: "11"}}},
			nil, nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			log, store := newFakeLog(), &memoryStore{}
			r, s := startStream(t, log, store)
			snapshot(t, s, "10", "a u1 5")
			for _, b := range c.before {
				send(t, s, b.Op, "a", b.UID, b.ResourceVersion, source.ReasonWatch)
			}
			r.settleAndStop()
			log.forgetIDs()
			had := len(log.lines())

			r, s = startStream(t, log, store)
			relist(t, s, "20", c.exists...)
			r.settle()
			expect(t, log.lines()[had:], append([]string{"gap 20"}, c.want...)...)
			n := s.Ledger.Len()
			assert.Equal(t, len(c.exists), n, "the ledger has %d objects", n)
		})
	}
}

// An object that is new to the ledger and not to the log: the process died in the second in which it was created.
func TestRestart_an_object_that_only_the_log_knows_is_not_added_again(t *testing.T) {
	log, store := newFakeLog(), &memoryStore{}
	r, s := startStream(t, log, store)
	snapshot(t, s, "10")
	send(t, s, source.Added, "a", "u1", "11", source.ReasonWatch)
	send(t, s, source.Added, "b", "u2", "12", source.ReasonWatch)
	r.settleAndStop()
	log.forgetIDs()
	r, s = startStream(t, log, store)
	relist(t, s, "20", "a u1 15", "b u3 16")
	r.settle()
	got := log.lines()[5:]
	slices.SortStableFunc(got, byObject)
	expect(t, got, "updated default/a u1 15 relist", "deleted default/b u2 12 relist", "added default/b u3 16 relist")
}

// The window in which the broker knows ids ends between two repetitions: the second is recognised by the place of the
// first.
func TestRestart_repeats_nothing_when_ids_are_forgotten_meanwhile(t *testing.T) {
	log, store := newFakeLog(), &memoryStore{}
	r, s := startStream(t, log, store)
	snapshot(t, s, "10")
	for _, v := range []string{"11", "12", "13"} {
		send(t, s, source.Updated, "a", "u1", v, source.ReasonWatch)
	}
	r.settleAndStop()
	r, s = startStream(t, log, store)
	send(t, s, source.Updated, "a", "u1", "11", source.ReasonWatch)
	r.settle()
	log.forgetIDs()
	for _, v := range []string{"12", "13", "14"} {
		send(t, s, source.Updated, "a", "u1", v, source.ReasonWatch)
	}
	r.settle()
	expect(t, log.lines()[2:],
		"added default/a u1 11 watch", "updated default/a u1 12 watch", "updated default/a u1 13 watch",
		"updated default/a u1 14 watch")
}

func TestRestart_in_the_list_of_changed_selectors_lists_again(t *testing.T) {
	log, store := newFakeLog(), &memoryStore{}
	r := start(t, log, store)
	snapshot(t, r.stream(nil), "10", "a u1 5", "b u2 6")
	_ = r.stop()

	r = start(t, log, store)
	s := r.stream(&StreamSpec{LabelSelector: "x=y"})
	note(t, s, source.Progress{Kind: source.SnapshotStarted, Version: "20"})
	send(t, s, source.Added, "c", "u3", "7", source.ReasonRelist)
	r.settle()
	require.NoError(t, r.journal.Commit(t.Context()))
	_ = r.stop()
	for _, selector := range []string{"", "x=y"} {
		r = start(t, log, store)
		_, _, ok := r.stream(&StreamSpec{LabelSelector: selector}).Resume()
		assert.False(t, ok, "with selector %q a stream resumes whose list for x=y was cut short", selector)
		_ = r.stop()
	}
}

func TestRestart_selectors_that_are_changed_back_bring_back_what_they_had_put_away(t *testing.T) {
	log, store := newFakeLog(), &memoryStore{}
	r := start(t, log, store)
	snapshot(t, r.stream(nil), "10", "a u1 5")
	_ = r.stop()

	r = start(t, log, store)
	r.env.Client = clientOf(t, newAPIServer(t, 10))
	s := r.stream(&StreamSpec{LabelSelector: "x=y"})
	snapshot(t, s, "20")
	_ = r.stop()

	r, s = startStream(t, log, store)
	snapshot(t, s, "20", "a u1 5")
	r.settle()
	lines := log.lines()
	expect(t, lines[len(lines)-2:], "gap 20", "added default/a u1 5 relist")
}
