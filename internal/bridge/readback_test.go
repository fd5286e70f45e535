// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
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
	assert.Len(t, r.journal.State().Rows["configmaps.v1"], 1, "known")
}

// prepared is a log of two objects with three states each, known positions after 4 and after all messages.
func prepared(t *testing.T, log sink.Sink, store checkpoint.Store) {
	t.Helper()
	r, s := startStream(t, log, store)
	snapshot(t, s, "10", "a u1 5", "b u2 6") // 4 messages
	require.NoError(t, r.journal.Save(t.Context()))
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
	assert.Equal(t, sequence.Repair, r.stream(nil).Saved.Owes.List, "the loss is not noticed")
}

func TestPipeline_starts_again_where_its_log_lost_something(t *testing.T) {
	api, log, store := newAPIServer(t, 10), newReadableLog(), &memoryStore{}
	b := runBridge(t, api, log, store, nil)
	must.Happen(t, "the snapshot", func() bool { return len(log.lines()) == 2 })
	api.add(3)
	must.Happen(t, "the events", func() bool { return len(log.lines()) == 5 })
	before := b.session(t)
	require.NoError(t, before.journal.Save(t.Context()))
	log.lose(3)
	log.end <- &sink.RewoundError{Target: "the log", Acknowledged: 5, Last: 3}
	must.Happen(t, "what was lost", func() bool { return len(log.lines()) >= 6 })
	assert.NotSame(t, before, b.session(t), "it is the same session")
	require.NoError(t, b.stop())
}

// A process that dies in a list leaves its marker in the log. The next one lists at the same version.
func TestReadBack_a_list_is_announced_once(t *testing.T) {
	for _, saved := range []bool{false, true} {
		log, store, r, _ := listed(t, "10", "a u1 5")
		_ = r.stop()
		for range 2 {
			log.forgetIDs()
			var s *stream.Stream
			r, s = startStream(t, log, store)
			note(t, s, source.Progress{Kind: source.Gap, Version: "20", Why: source.Why{Message: "too old"}})
			if saved {
				require.NoError(t, r.journal.Save(t.Context()))
			}
			_ = r.stop()
		}
		r = start(t, log, store)
		relist(t, r.stream(nil), "20", "a u1 11")
		r.settle()
		expect(t, log.lines()[3:], "gap 20", "updated default/a u1 11 relist")
		relist(t, r.journal.Opened()[0], "30", "a u1 11")
		r.settle()
		expect(t, log.lines()[5:], "gap 30")
	}
}

// A stop comes when the broker has the marker, and before that is known. The last commit says that the log is known up
// to there.
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
	require.ErrorIs(t, s.Note(ctx, source.Progress{Kind: source.Gap, Version: "20", Why: source.Why{Message: "too old"}}),
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
	window := r.delivery.Offsets.Begin() // an event that is in the log and not acknowledged, before the one that follows
	send(t, s, source.Updated, "a", "u1", "11", source.ReasonWatch)
	r.settle()
	for range 3 {
		require.NoError(t, r.journal.Save(t.Context()))
	}
	mark := store.state.Log.Marks[0]
	assert.True(t, mark < 4, "the log is read back from %d, and an event before that may be unknown", mark)
	r.delivery.Offsets.End(window, sink.Receipt{}, "")
}
