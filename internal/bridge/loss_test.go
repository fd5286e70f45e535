// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// saved is a bridge that has published a@5 and saved that.
func saved(t *testing.T, log sink.Sink, store checkpoint.Store) (*rig, *stream) {
	t.Helper()
	r, s := startStream(t, log, store)
	snapshot(t, s, "10", "a u1 5")
	require.NoError(t, r.save(t.Context()))
	return r, s
}

// resumesAt checks where a bridge that starts now goes on.
func resumesAt(t *testing.T, log sink.Sink, store checkpoint.Store, spec *StreamSpec, want string) {
	t.Helper()
	version, _, ok := start(t, log, store).stream(spec).Resume()
	if !ok {
		version = ""
	}
	assert.Equal(t, want, version, "the stream resumes")
}

// A new process has read the tail that a dead one left, and then the broker loses that tail.
func TestRepair_what_was_only_read_back_can_be_lost_too(t *testing.T) {
	log, store := newReadableLog(), &crashingStore{}
	store.left.Store(1 << 30)
	r, s := saved(t, log, store)
	store.left.Store(0)
	send(t, s, source.Updated, "a", "u1", "11", source.ReasonWatch)
	r.settleAndStop()
	r, s = startStream(t, log, &store.memoryStore)
	send(t, s, source.Updated, "a", "u1", "11", source.ReasonWatch)
	note(t, s, source.Progress{Kind: source.Bookmark, Version: "12"})
	r.settle()
	r.stopSaved()
	log.lose(3)
	resumesAt(t, log, &store.memoryStore, nil, "10")
}

// Older positions are those of other selectors.
func TestRepair_goes_back_no_further_than_its_selectors(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	r, _ := saved(t, log, store)
	_ = r.stop()
	had := len(log.lines())
	other := func() *StreamSpec { return &StreamSpec{LabelSelector: "x=y"} }
	r = start(t, log, store)
	s := r.stream(other())
	note(t, s, source.Progress{Kind: source.SnapshotStarted, Version: "20"})
	r.extended = time.Time{}
	require.NoError(t, r.save(t.Context())) // in the middle of the list
	send(t, s, source.Added, "d", "u4", "8", source.ReasonSnapshot)
	note(t, s, source.Progress{Kind: source.Listed, Version: "20", Objects: 1})
	r.stopSaved()
	log.lose(had + 1)
	resumesAt(t, log, store, other(), "")
}

// One object that the broker refuses for ever holds the mark back, not what is known to be acknowledged.
func TestRepair_notices_a_loss_behind_what_is_refused(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	r, s := saved(t, log, store)
	log.set(func() { log.refuse = func(m *sink.Message) bool { return strings.HasSuffix(m.Subject, ".stuck") } })
	send(t, s, source.Added, "stuck", "u9", "11", source.ReasonWatch)
	must.Happen(t, "the refusal", func() bool { return r.broker.problem(nil) != nil })
	for v := 20; v < 30; v++ {
		send(t, s, source.Updated, "a", "u1", fmt.Sprint(v), source.ReasonWatch)
		must.Happen(t, "the event", func() bool { row, _ := s.ledger.Get("default/a"); return row.ResourceVersion == fmt.Sprint(v) })
	}
	r.stopSaved()
	log.lose(8)
	r = start(t, log, store)
	assert.Equal(t, 1, r.state.Log.Losses, "the loss is not noticed")
}

// Discovery does not know the resource yet; nothing of it was lost.
func TestRepair_spares_a_stream_that_is_not_open_yet(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	secrets := source.Stream{Resource: source.Resource{Version: "v1", Resource: "secrets", Kind: "Secret", Namespaced: true}}
	r, s := saved(t, log, store)
	late, err := r.open(s.spec, secrets)
	require.NoError(t, err)
	snapshot(t, late, "10", "s u7 6")
	r.stopSaved()
	r, s = startStream(t, log, store)
	send(t, s, source.Updated, "a", "u1", "11", source.ReasonWatch)
	r.settle()
	r.stopSaved()
	log.lose(len(log.log) - 1)
	r, s = startStream(t, log, store)
	late = must.Get(r.open(s.spec, secrets))(t)
	version, _, ok := late.Resume()
	assert.True(t, ok && version == "10", "it resumes at %q, %v", version, ok)
}

// Another log under the same name, that happens to be as long.
func TestRepair_of_another_log_nothing_is_known(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	log.id = "first"
	r, _ := saved(t, log, store)
	_ = r.stop()
	log.id = "second"
	resumesAt(t, log, store, nil, "")
	assert.Equal(t, "second", store.state.Log.ID, "the checkpoint says %+v", store.state.Log)
	assert.Equal(t, 1, store.state.Log.Losses, "the checkpoint says %+v", store.state.Log)
}

// Of a log that was made anew nothing is known, wherever it begins: not even that it had had what the old one had.
func TestRepair_of_another_log_keeps_only_what_was_never_published(t *testing.T) {
	for id, want := range map[string][]string{"first": {"default/a", "default/silent"}, "second": {"default/silent"}} {
		log, store := newReadableLog(), &memoryStore{}
		log.id = "first"
		r, s := saved(t, log, store)
		s.ledger.Put("default/silent", checkpoint.Row{UID: "u8", ResourceVersion: "4"})
		require.NoError(t, r.commit(t.Context()))
		_ = r.stop()
		log.id = id
		log.lose(0)
		p := start(t, newFakeLog(), store) // knows no more than the checkpoint
		if err := p.rebuild(t.Context(), log, sink.LogBounds{ID: id, Partitions: map[int32]sink.Bounds{0: {First: 15, Last: 20}}}, checkpoint.Waypoint{}); err != nil {
			t.Fatal(err)
		}
		got := slices.Sorted(maps.Keys(p.state.Rows["configmaps.v1"]))
		assert.Equal(t, want, got, "log %q: %v is known", id, got)
	}
}

// A log has many more objects that are gone than there are.
func TestRepair_holds_no_object_that_was_gone_before_what_is_watched_again(t *testing.T) {
	log, store, r, s := listed(t, "5", "a u1 2", "b u2 3", "c u3 4")
	send(t, s, source.Deleted, "a", "u1", "8", source.ReasonWatch)
	note(t, s, source.Progress{Kind: source.Bookmark, Version: "10"})
	r.settle()
	r.cutTrail(s.name)
	require.NoError(t, r.save(t.Context()))
	send(t, s, source.Deleted, "b", "u2", "11", source.ReasonWatch)
	send(t, s, source.Updated, "c", "u3", "12", source.ReasonWatch)
	note(t, s, source.Progress{Kind: source.Bookmark, Version: "20"})
	r.settle()
	r.stopSaved()
	rows := map[string]map[string]checkpoint.Row{}
	p := start(t, newFakeLog(), store)
	p.state.Log.Trail = []checkpoint.Waypoint{{Positions: map[string]string{s.name: "10"}}, {Positions: map[string]string{s.name: "20"}}}
	require.NoError(t, log.Read(t.Context(), sink.Query{}, func(m *sink.Stored) error {
		p.relearn(rows, m, func(stream, version string) bool { return !after(version, p.oldest()[stream]) })
		return nil
	}))
	assert.Equal(t, []string{"default/b", "default/c"}, slices.Sorted(maps.Keys(rows[s.name])),
		"held, and what was deleted before version 10 is shown by nothing")
}

// The messages at the waypoint are not known by their ids, but everything that the ledger has of later ones is where it was.
func TestRepair_goes_back_no_further_than_the_part_that_is_intact(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	prepared(t, log, store)
	for i := range store.state.Log.Trail {
		store.state.Log.Trail[i].IDs = nil
	}
	log.lose(8)
	resumesAt(t, log, store, nil, "10")
}

// The end of a snapshot was announced and not committed, and another stream has announced itself at the same subject since.
func TestReadBack_a_snapshot_is_called_complete_once(t *testing.T) {
	log, store := newReadableLog(), &crashingStore{}
	store.left.Store(2)
	r, s := startStream(t, log, store)
	snapshot(t, s, "10", "a u1 5")
	_ = r.stop()
	require.NotEqual(t, (checkpoint.Snapshot{}), store.state.Streams[s.name].Unannounced,
		"the commit that says that the end is announced is saved")
	must.Get(log.append(&sink.Message{Subject: "k8s.test.core.configmaps._._snapshot", ID: "another"}))(t)
	log.forgetIDs()
	r, s = startStream(t, log, &store.memoryStore)
	r.settle()
	checkOnce(t, log)
	assert.Equal(t, "10", s.safe(), "the stream is safe")
}

// The object was there when etcd was backed up no more: its deletion has a version of the history before.
func TestHistory_a_name_that_was_used_before_the_restore_is_used_again(t *testing.T) {
	for _, crash := range []bool{false, true} {
		log, store, r, s := listed(t, "100", "a u1 90")
		restored(t, s)
		snapshot(t, s, "12")
		if crash {
			_ = r.stop()
			r, s = startStream(t, log, store)
		} else if err := r.save(t.Context()); err != nil {
			t.Fatal(err)
		}
		send(t, s, source.Added, "a", "u2", "14", source.ReasonWatch)
		r.settle()
		lines := log.lines()
		assert.Equal(t, "added default/a u2 14 watch", lines[len(lines)-1], "crash %v: the log ends", crash)
	}
}

// The broker has the marker, its answer was lost, and it knows ids no more. Meanwhile another stream may have announced itself at the same subject.
func TestMarkers_are_in_the_log_once_although_an_answer_is_lost(t *testing.T) {
	for _, other := range []bool{false, true} {
		log, store := newReadableLog(), &memoryStore{}
		r, s := startStream(t, log, store)
		answers := 0
		log.set(func() {
			log.faults = func() fault {
				if answers++; answers > 1 {
					return noFault
				}
				if other {
					_, _ = log.append(&sink.Message{Subject: "k8s.test.core.configmaps._._snapshot", ID: "another"})
				}
				log.byID = map[string]int{}
				return lostAnswer
			}
			log.stored = func() { log.byID = map[string]int{} }
		})
		note(t, s, source.Progress{Kind: source.SnapshotStarted, Version: "10"})
		r.settle()
		n := 0
		for _, line := range log.lines() {
			if strings.HasPrefix(line, "snapshot-started") {
				n++
			}
		}
		assert.Equal(t, 1, n,
			"other %v: the marker is there %d times:\n%s", other, n, strings.Join(log.lines(), "\n"))
	}
}

// The list was complete, and its end not announced, when the log lost it.
func TestRepair_a_snapshot_that_was_lost_is_not_called_complete(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	r, _ := saved(t, log, store)
	_ = r.stop()
	at := store.state.Streams["configmaps.v1"]
	at.Unannounced = checkpoint.Snapshot{ResourceVersion: "10", Objects: 1}
	store.state.Streams["configmaps.v1"] = at
	log.lose(1)
	r = start(t, log, store)
	r.stream(nil)
	r.settle()
	expect(t, log.lines(), "snapshot-started 10")
}

// stoppingStore ends the session when it is asked for the repaired state.
type stoppingStore struct {
	memoryStore
	loads int
	stop  context.CancelFunc
}

func (s *stoppingStore) Load(ctx context.Context) (*checkpoint.State, error) {
	if s.loads++; s.loads == 2 {
		s.stop()
		return nil, context.Canceled
	}
	return s.memoryStore.Load(ctx)
}

func TestRepair_can_be_stopped_in_the_middle(t *testing.T) {
	log, store := newReadableLog(), &stoppingStore{}
	r, _ := saved(t, log, &store.memoryStore)
	_ = r.stop()
	log.lose(1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	store.stop = cancel
	p := New(Config{
		Name: "test", Identity: checkpoint.Identity{Cluster: "test", Pipeline: "test"}, Store: store, Buffer: 1 << 20,
		Metrics: NewMetrics(prometheus.NewRegistry()), Sink: func() (sink.Sink, error) { return log, nil },
	})
	require.NoError(t, p.Run(ctx))
}

// A new history had begun, and its list was not complete, when the log lost also what came before it.
func TestRepair_a_gap_reaches_back_to_what_the_log_has(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	r, s := saved(t, log, store)
	restored(t, s)
	note(t, s, source.Progress{Kind: source.SnapshotStarted, Version: "8"})
	r.stopSaved()
	log.lose(0)
	r = start(t, log, store)
	snapshot(t, r.stream(nil), "9", "a u1 5")
	r.settle()
	expect(t, log.lines(), "gap 9", "added default/a u1 5 relist")
	assert.Contains(t, string(log.log[0].Data), `"from":"0"`, "the gap")
}
