// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/watching"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// rewind is what the command does to a store: the stream was at 20, and goes back to 10.
func (s *memoryStore) rewind() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, saved := range s.state.Streams {
		saved.Position, saved.Replay = "10", checkpoint.Replay{To: "20", Number: 7}
		saved.Refused = slices.Clone(saved.Refused)
		for i := range saved.Refused {
			saved.Refused[i] = checkpoint.Refused{Key: saved.Refused[i].Key}
		}
		s.state.Streams[name] = saved
	}
}

type happening struct {
	op        source.Op
	name, uid string
	version   string
}

// life is what happens after 10, when there is a@5.
var life = []happening{
	{source.Updated, "a", "u1", "11"},
	{source.Added, "b", "u2", "12"},
	{source.Updated, "b", "u2", "13"},
	{source.Deleted, "b", "u2", "14"},
	{source.Added, "c", "u3", "15"},
	{source.Deleted, "c", "u3", "16"},
	{source.Added, "c", "u4", "17"},
	{source.Updated, "a", "u1", "18"},
}

func live(t *testing.T, s *stream.Stream, all []happening) {
	t.Helper()
	for _, h := range all {
		send(t, s, h.op, h.name, h.uid, h.version, source.ReasonWatch)
		settleNow(t, s)
	}
}

func settleNow(t *testing.T, s *stream.Stream) {
	t.Helper()
	must.Happen(t, "all to be settled", func() bool { return s.Env.Delivery.InFlight.Count() == 0 })
}

// lived is a bridge that has published life, and was stopped.
func lived(t *testing.T, log readableLog, store *memoryStore) (first []string) {
	t.Helper()
	r, s := saved(t, log, store)
	live(t, s, life)
	note(t, s, source.Progress{Kind: source.Bookmark, Version: "20"})
	r.stopSaved()
	return log.lines()
}

// onceMore is what of lines is to be there once more.
func onceMore(lines []string) (out []string) {
	for _, line := range lines {
		if strings.HasSuffix(line, " watch") {
			out = append(out, strings.TrimSuffix(line, "watch")+"resync")
		}
	}
	return out
}

func TestReplay_tells_once_more_what_happened_in_its_order(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	first := lived(t, log, store)
	store.rewind()
	r, s := startStream(t, log, store)
	live(t, s, life)
	live(t, s, life[len(life)-1:]) // a watch that is resumed shows the last one once more
	note(t, s, source.Progress{Kind: source.Bookmark, Version: "21"})
	live(t, s, []happening{{source.Updated, "a", "u1", "22"}})
	expect(t, log.lines(), slices.Concat(first, onceMore(first), []string{"updated default/a u1 22 watch"})...)
	for i, m := range log.log {
		assert.Equal(t, strings.HasSuffix(m.ID, ".r7"), i >= len(first) && i < len(log.log)-1,
			"the id of %s is %s", log.lines()[i], m.ID)
	}
	require.NoError(t, r.journal.Save(t.Context()))
	assert.Equal(t, (checkpoint.Replay{}), s.Saved.Replay, "it is not over")
}

func TestReplay_goes_on_after_a_crash_where_the_log_is(t *testing.T) {
	for cut := range life {
		log, store := newReadableLog(), &memoryStore{}
		first := lived(t, log, store)
		store.rewind()
		r := start(t, log, store)
		live(t, r.stream(nil), life[:cut])
		_ = r.stop() // without a commit
		live(t, start(t, log, store).stream(nil), life)
		checkOnce(t, log)
		again := log.lines()[len(first):]
		want := onceMore(first)
		for _, line := range want { // what the log had before the crash it may have once more
			assert.Contains(t, again, line, "cut at %d", cut)
		}
		assert.Equal(t, want[cut:], again[len(again)-len(want)+cut:], "cut at %d", cut)
	}
}

// The history breaks off: what was told again of a is old, and the list says what it is now.
func TestReplay_that_breaks_off_ends_with_what_is(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	first := lived(t, log, store)
	store.rewind()
	r, s := startStream(t, log, store)
	live(t, s, life[:3])
	relist(t, s, "30", "a u1 18", "c u4 17")
	r.settle()
	got := log.lines()[len(first):]
	slices.Sort(got[4:]) // of two objects
	expect(t, got, slices.Concat(onceMore(first)[:3],
		[]string{"gap 30", "deleted default/b u2 14 relist", "updated default/a u1 18 relist"})...)
	for _, m := range log.log[len(first)+4:] {
		assert.True(t, strings.HasSuffix(m.ID, ".r7"), "the id %s may be in the log", m.ID)
	}
}

// A process was killed before it committed what it had published last: those events have their ids already.
func TestReplay_reaches_what_a_crash_left_uncommitted(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	lived(t, log, store)
	tail := []happening{{source.Updated, "a", "u1", "25"}, {source.Deleted, "a", "u1", "26"}}
	r := start(t, log, store)
	live(t, r.stream(nil), tail)
	_ = r.stop()
	store.rewind()
	first := log.lines()
	live(t, start(t, log, store).stream(nil), slices.Concat(life, tail))
	want := slices.Concat(first, onceMore(first))
	expect(t, log.lines(), want...)
	ids := map[string]bool{}
	for _, m := range log.log {
		assert.False(t, ids[m.ID], "the id %s is there twice", m.ID)
		ids[m.ID] = true
	}
}

// Its events would say what the log has last, which a replay is about to change.
func TestReplay_keeps_a_resync_waiting(t *testing.T) {
	s := &stream.Stream{
		State: stream.State{Tracker: ledger.NewTracker("20")}, Status: watching.New(watching.Config{Log: slog.New(slog.DiscardHandler), Incidents: &health.StreamIncidents{}}),
	}
	s.Status.State(source.Watching, nil)
	require.True(t, s.Steady(), "without a replay it is not steady")
	s.Saved.Replay.To = "30"
	assert.False(t, s.Steady(), "it does not wait")
}
