// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// The dead process published and did not commit; of what it did only the log knows.
func TestReadBack_what_died_with_its_process_is_found_missing(t *testing.T) {
	log, store := newReadableLog(), &crashingStore{}
	store.left.Store(1 << 30)
	r, s := saved(t, log, store)
	store.left.Store(0)
	send(t, s, source.Added, "b", "u2", "11", source.ReasonWatch)
	send(t, s, source.Updated, "a", "u1", "12", source.ReasonWatch)
	r.settleAndStop()

	r, s = startStream(t, log, &store.memoryStore)
	relist(t, s, "20", "a u1 12")
	r.settle()
	expect(t, log.lines()[5:], "gap 20", "deleted default/b u2 11 relist")
}

// So it is where the process died in its first list, before it had a position.
func TestReadBack_what_died_with_its_process_in_a_first_list_is_found_missing(t *testing.T) {
	log, store := newReadableLog(), &crashingStore{}
	store.left.Store(1)
	r, s := startStream(t, log, store)
	note(t, s, source.Progress{Kind: source.SnapshotStarted, Version: "10"})
	send(t, s, source.Added, "b", "u2", "5", source.ReasonSnapshot)
	r.settleAndStop()

	r = start(t, log, &store.memoryStore)
	snapshot(t, r.stream(nil), "20")
	r.settle()
	expect(t, log.lines()[2:], "snapshot-started 20", "deleted default/b u2 5 snapshot", "snapshot-completed 20")
}

func TestReadBack_what_the_log_has_is_not_published_again(t *testing.T) {
	log, store := newReadableLog(), &crashingStore{}
	store.left.Store(1 << 30)
	r, s := saved(t, log, store)
	store.left.Store(0)
	send(t, s, source.Updated, "a", "u1", "11", source.ReasonWatch)
	send(t, s, source.Deleted, "a", "u1", "12", source.ReasonWatch)
	r.settleAndStop()
	log.forgetIDs()

	log.set(func() { log.refuse = func(*sink.Message) bool { t.Error("something is published"); return false } })
	r, s = startStream(t, log, &store.memoryStore)
	version, _, ok := s.Resume()
	assert.True(t, ok && version == "10", "the stream resumes at %q, want 10", version)
	send(t, s, source.Updated, "a", "u1", "11", source.ReasonWatch)
	send(t, s, source.Deleted, "a", "u1", "12", source.ReasonWatch)
	r.settle()
}

func TestReadBack_others_events_teach_nothing(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	r := start(t, log, store)
	snapshot(t, r.stream(nil), "10", "a u1 5")
	_ = r.stop()
	for _, foreign := range []encode.Config{{Cluster: "test", Pipeline: "other"}, {Cluster: "other", Pipeline: "test"}} {
		e := encode.New(source.Stream{Resource: configMaps}, foreign)
		m := &sink.Message{}
		require.NoError(t, e.Change(m, &source.Change{
			Op: source.Added, Ident: source.Ident{Namespace: "default", Name: "x", UID: "u9", ResourceVersion: "12"},
			Body: source.NewBody([]byte(`{"metadata":{"name":"x"}}`)), Reason: source.ReasonWatch, Seen: time.Now(),
		}))
		must.Get(log.store(m))(t)
	}
	r = start(t, log, store)
	assert.Len(t, r.state.Rows["configmaps.v1"], 1, "known")
}

func TestMarks_never_pass_what_is_under_way(t *testing.T) {
	m := newMarks()
	m.start(map[int32]uint64{0: 10}, map[int32]string{})
	a := m.begin()
	b := m.begin()
	m.end(b, sink.Receipt{Sequence: 13}, "b")
	for range 3 {
		got := m.take()[0]
		require.EqualValues(t, 10, got, "the mark is %d with an event under way since 10", got)
	}
	c := m.begin()
	m.end(a, sink.Receipt{Sequence: 12}, "a")
	got := m.take()[0]
	require.True(t, got <= 13, "the mark is %d with an event under way since 13", got)
	m.end(c, sink.Receipt{Sequence: 14, Duplicate: true}, "c")
	m.take()
	got = m.take()[0]
	assert.EqualValues(t, 14, got, "the mark is %d with nothing under way, want 14", got)
}

// prepared is a log of two objects with three states each, known positions after 4 and after all messages.
func prepared(t *testing.T, log sink.Sink, store checkpoint.Store) {
	t.Helper()
	r, s := startStream(t, log, store)
	snapshot(t, s, "10", "a u1 5", "b u2 6") // 4 messages
	r.extended = time.Time{}
	require.NoError(t, r.save(t.Context()))
	for _, c := range []source.Change{
		{Op: source.Updated, Ident: source.Ident{Name: "a", UID: "u1", ResourceVersion: "11"}},
		{Op: source.Updated, Ident: source.Ident{Name: "a", UID: "u1", ResourceVersion: "12"}},
		{Op: source.Updated, Ident: source.Ident{Name: "b", UID: "u2", ResourceVersion: "13"}},
		{Op: source.Added, Ident: source.Ident{Name: "c", UID: "u3", ResourceVersion: "14"}},
		{Op: source.Deleted, Ident: source.Ident{Name: "b", UID: "u2", ResourceVersion: "15"}},
	} {
		send(t, s, c.Op, c.Name, c.UID, c.ResourceVersion, source.ReasonWatch)
		r.settle() // one after the other
	}
	note(t, s, source.Progress{Kind: source.Bookmark, Version: "20"})
	r.settle()
	r.stopSaved()
}

func TestRepair_what_the_log_lost_is_read_and_published_again(t *testing.T) {
	for lost := 4; lost < 9; lost++ {
		log, store := newReadableLog(), &memoryStore{}
		prepared(t, log, store)
		log.lose(lost)
		r, s := startStream(t, log, store)
		version, _, ok := s.Resume()
		require.True(t, ok, "with %d messages left the stream resumes, want 10", lost)
		require.Equal(t, "10", version, "with %d messages left the stream resumes, want 10", lost)
		for _, v := range []string{"11", "12"} {
			send(t, s, source.Updated, "a", "u1", v, source.ReasonWatch)
		}
		send(t, s, source.Updated, "b", "u2", "13", source.ReasonWatch)
		send(t, s, source.Added, "c", "u3", "14", source.ReasonWatch)
		send(t, s, source.Deleted, "b", "u2", "15", source.ReasonWatch)
		send(t, s, source.Updated, "a", "u1", "21", source.ReasonWatch)
		r.settle()
		got := log.lines()[4:]
		for i := range got {
			reason := " repair"
			if i < lost-4 || strings.Contains(got[i], " 21 ") {
				reason = " watch"
			}
			assert.True(t, strings.HasSuffix(got[i], reason),
				"with %d messages left: %s, want%s", lost, got[i], reason)
			got[i] = strings.Join(strings.Fields(got[i])[:4], " ")
		}
		slices.SortStableFunc(got, byObject)
		expect(t, got, "updated default/a u1 11", "updated default/a u1 12", "updated default/a u1 21",
			"updated default/b u2 13", "deleted default/b u2 15", "added default/c u3 14")
		for _, m := range log.log[lost:] {
			assert.Equal(t, (attribute(&m, "reason") == "repair"), strings.HasSuffix(m.ID, ".r1"),
				"id %s, reason %s", m.ID, attribute(&m, "reason"))
		}
		_ = r.stop()
	}
}

// Of a log that was created again nothing is known: everything that exists is published, behind a gap from the
// beginning.
func TestRepair_a_log_that_has_nothing_gets_everything(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	prepared(t, log, store)
	log.lose(0)
	for range 2 { // the second is after a crash before the list
		r, s := startStream(t, log, store)
		version, _, ok := s.Resume()
		require.True(t, !ok && version == "20", "the stream resumes at %q, and the API server has shown 20", version)
		_ = r.stop()
	}
	r, s := startStream(t, log, store)
	list(t, s, source.Progress{Kind: source.SnapshotStarted, Version: "30"}, source.ReasonSnapshot, []string{"a u1 12", "c u3 14", "d u4 25"})
	r.settle()
	got := log.lines()
	slices.Sort(got[1:])
	expect(t, got, "gap 30", "added default/a u1 12 repair", "added default/c u3 14 repair", "added default/d u4 25 relist")
	assert.Contains(t, string(log.log[0].Data), `"from":"0"`, "the gap")
}

// Others have written to the log since it was restored, so that it does not end before what was acknowledged.
func TestRepair_a_log_with_something_else_in_the_place_has_lost(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	prepared(t, log, store)
	log.lose(4)
	for i := range 10 {
		m := &sink.Message{Subject: "other", ID: strings.Repeat("x", i+1)}
		must.Get(log.store(m))(t)
	}
	r := start(t, log, store)
	version, _, ok := r.stream(nil).Resume()
	assert.True(t, ok && version == "10", "the stream resumes at %q, want 10", version)
}

// What had been published and vanished before its deletion could be published again.
func TestRepair_what_vanished_since_is_deleted_again(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	prepared(t, log, store)
	log.lose(5)
	r, s := startStream(t, log, store)
	relist(t, s, "30", "a u1 12")
	r.settle()
	got := log.lines()[5:]
	slices.Sort(got[1:])
	expect(t, got, "gap 30", "deleted default/b u2 6 repair", "updated default/a u1 12 repair")
}

func TestPipeline_starts_again_where_its_log_lost_something(t *testing.T) {
	api, log, store := newAPIServer(t, 10), newReadableLog(), &memoryStore{}
	b := runBridge(t, api, log, store, nil)
	must.Happen(t, "the snapshot", func() bool { return len(log.lines()) == 2 })
	api.add(3)
	must.Happen(t, "the events", func() bool { return len(log.lines()) == 5 })
	before := b.session(t)
	require.NoError(t, before.save(t.Context()))
	log.lose(3)
	log.end <- &sink.RewoundError{Target: "the log", Acknowledged: 5, Last: 3}
	must.Happen(t, "what was lost", func() bool { return len(log.lines()) >= 6 })
	assert.NotSame(t, before, b.session(t), "it is the same session")
	require.NoError(t, b.stop())
}

// What the intact part of the log has of an object that is gone is not published again.
func TestRepair_leaves_alone_what_the_log_has(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	prepared(t, log, store)
	store.state.Log.Trail = []checkpoint.Waypoint{{
		Marks: map[int32]uint64{0: 4}, IDs: map[int32]string{0: log.log[3].ID}, Positions: map[string]string{"configmaps.v1": "10"},
	}}
	p := start(t, log, store)
	if err := p.rebuild(t.Context(), log, sink.LogBounds{Partitions: map[int32]sink.Bounds{0: {First: 1, Last: 9}}}, checkpoint.Waypoint{Marks: map[int32]uint64{0: 9}}); err != nil {
		t.Fatal(err)
	}
	s := p.stream(nil)
	version, _, ok := s.Resume()
	require.True(t, ok && version == "10", "the stream resumes at %q, want 10", version)
	send(t, s, source.Updated, "b", "u2", "13", source.ReasonWatch)
	send(t, s, source.Deleted, "b", "u2", "15", source.ReasonWatch)
	send(t, s, source.Updated, "a", "u1", "21", source.ReasonWatch)
	p.settle()
	expect(t, log.lines()[9:], "updated default/a u1 21 watch")
}

// A process that dies in a list leaves its marker in the log. The next one lists at the same version.
func TestReadBack_a_list_is_announced_once(t *testing.T) {
	for _, saved := range []bool{false, true} {
		log, store, r, s := listed(t, "10", "a u1 5")
		_ = r.stop()
		for range 2 {
			log.forgetIDs()
			r, s = startStream(t, log, store)
			note(t, s, source.Progress{Kind: source.Gap, Version: "20", Cause: "too old"})
			if saved {
				require.NoError(t, r.save(t.Context()))
			}
			_ = r.stop()
		}
		r = start(t, log, store)
		relist(t, r.stream(nil), "20", "a u1 11")
		r.settle()
		expect(t, log.lines()[3:], "gap 20", "updated default/a u1 11 relist")
		relist(t, r.opened()[0], "30", "a u1 11")
		r.settle()
		expect(t, log.lines()[5:], "gap 30")
	}
}

// A stop comes when the broker has the marker, and before that is known. The last commit says that the log is known up to there.
func TestReadBack_a_list_is_announced_once_where_a_stop_comes_between(t *testing.T) {
	log, store, r, s := listed(t, "10", "a u1 5")
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	log.set(func() {
		log.stored = func() {
			cancel()
			<-stopped
		}
	})
	require.ErrorIs(t, s.Note(ctx, source.Progress{Kind: source.Gap, Version: "20", Cause: "too old"}),
		context.Canceled, "the list begins")
	close(stopped)
	r.settle()
	r.stopSaved()
	log.set(func() { log.stored = nil })
	log.forgetIDs()
	r = start(t, log, store)
	relist(t, r.stream(nil), "20", "a u1 11")
	r.settle()
	expect(t, log.lines()[3:], "gap 20", "updated default/a u1 11 relist")
	got := value(t, r.registry, "gaps_total")
	assert.True(t, got == 1, "%v gaps are counted: the first process may be gone before anybody has asked it", got)
}

func TestReadBack_begins_before_what_was_under_way(t *testing.T) {
	_, store, r, s := listed(t, "10", "a u1 5")
	window := r.marks.begin() // an event that is in the log and not acknowledged, before the one that follows
	send(t, s, source.Updated, "a", "u1", "11", source.ReasonWatch)
	r.settle()
	for range 3 {
		require.NoError(t, r.save(t.Context()))
	}
	mark := store.state.Log.Marks[0]
	assert.True(t, mark < 4, "the log is read back from %d, and an event before that may be unknown", mark)
	r.marks.end(window, sink.Receipt{}, "")
}

// An object's events are in two partitions since the topic got more of them, and the one with the newer events is read first.
func TestReadBack_knows_the_newest_state_in_whatever_partition_it_is(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	r, s := saved(t, log, store)
	send(t, s, source.Updated, "a", "u1", "30", source.ReasonWatch)
	send(t, s, source.Deleted, "a", "u1", "31", source.ReasonWatch)
	send(t, s, source.Updated, "a", "u2", "32", source.ReasonWatch)
	r.settle()
	r.stopSaved()
	r = start(t, log, store)
	lines := len(log.log)
	older, deleted, newest := log.log[lines-3], log.log[lines-2], log.log[lines-1]
	older.Partition, deleted.Partition, newest.Partition, newest.Sequence = 0, 0, 1, 1
	for _, order := range [][]sink.Stored{{older, deleted, newest}, {newest, older, deleted}} {
		learned, again := map[string]map[string]checkpoint.Row{}, map[string]map[string]checkpoint.Row{}
		for _, m := range order {
			r.learn(learned, &m, nil)
			r.relearn(again, &m, func(_, version string) bool { return !after(version, "40") })
		}
		for _, rows := range []map[string]map[string]checkpoint.Row{learned, again} {
			if row := rows[s.name]["default/a"]; row.ResourceVersion != "32" || row.UID != "u2" || row.Partition != 1 || row.Sequence != 1 {
				t.Errorf("known is %+v", row)
			}
		}
	}
}

func TestFollows_places_decide_and_else_versions(t *testing.T) {
	at := func(partition int32, sequence uint64, version string) checkpoint.Row {
		return checkpoint.Row{UID: "u", ResourceVersion: version, Partition: partition, Sequence: sequence}
	}
	over := at(0, 9, "9")
	over.Superseded = true
	for _, c := range []struct {
		before, row checkpoint.Row
		want        bool
	}{
		{at(0, 1, "9"), at(0, 2, "5"), true},
		{at(0, 2, "5"), at(0, 1, "9"), false},
		{at(0, 9, "5"), at(1, 1, "10"), true},
		{at(1, 1, "10"), at(0, 9, "5"), false},
		{at(1, 1, "10"), at(0, 9, "10"), false},
		{over, at(1, 1, "5"), true},
		{at(1, 1, "5"), over, false},
	} {
		assert.Equal(t, c.want, follows(c.before, c.row), "%+v behind %+v", c.row, c.before)
	}
}
