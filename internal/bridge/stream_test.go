// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	require.Equal(t, strings.Join(want, "\n"), strings.Join(got, "\n"), "the log")
}

func TestStream_a_first_list_is_a_snapshot_between_its_markers(t *testing.T) {
	log, r, s := startNew(t, nil)
	snapshot(t, s, "10", "a u1 5")
	r.settle()
	expect(t, log.lines(), "snapshot-started 10", "added default/a u1 5 snapshot", "snapshot-completed 10")
	assert.Equal(t, "10", s.Tracker.Position(), "position, want that of the list")
}

// A crash behind a commit that has the version of a complete list as the position would else list again, behind a gap
// in which nothing is missing.
func TestStream_commits_the_version_of_a_list_and_that_nothing_is_owed_at_once(t *testing.T) {
	_, store, r, s := listed(t, "10", "a u1 5")
	note(t, s, source.Progress{Kind: source.Gap, Version: "20", Why: source.Why{Message: "compacted"}})
	ticket := s.Tracker.Open("", time.Now())
	s.Mu.Lock()
	s.Lists.Complete = &source.Progress{Version: "20"}
	s.Mu.Unlock()
	s.Tracker.Bookmark("20")
	require.NoError(t, r.journal.Save(t.Context()))
	saved := store.streams(t)[s.Name]
	assert.True(t, saved.Position == "10" && saved.Owes.List == sequence.Relist, "the store has %+v", saved)
	s.Tracker.Settle(ticket)
	require.NoError(t, r.journal.Save(t.Context()))
	saved = store.streams(t)[s.Name]
	assert.True(t, saved.Position == "20" && saved.Owes == checkpoint.Owes{}, "the store has %+v", saved)
}

// Another stream has found out meanwhile that etcd was restored: the list of the next epoch is owed.
func TestStream_owes_what_does_not_compare_although_a_list_is_complete(t *testing.T) {
	_, store, r, s := listed(t, "10", "a u1 5")
	s.Mu.Lock()
	s.Lists.Complete = &source.Progress{Version: "10"}
	s.Epochs.Mismatch = &source.RewoundError{Stream: s.Name}
	s.Saved.Owes = checkpoint.Owes{List: sequence.Republish, Cause: string(source.CauseRestored)}
	s.Mu.Unlock()
	require.NoError(t, r.journal.Save(t.Context()))
	assert.Equal(t, sequence.Republish, store.streams(t)[s.Name].Owes.List)
}

// A dead process has not come to say that the snapshot is complete.
func TestStream_reads_nothing_before_the_word_of_a_complete_snapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, store, r, s := listed(t, "10", "a u1 5")
		s.Mu.Lock()
		s.Saved.Unannounced = checkpoint.Snapshot{ResourceVersion: "10", Objects: 1}
		s.Mu.Unlock()
		r.stopSaved()

		gate := log.hold()
		r, s = startStream(t, log, store)
		var asked atomic.Int64
		r.env.Client = answeredBy(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			http.Error(w, "", http.StatusServiceUnavailable)
		}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Read(ctx, nil) }()
		synctest.Wait()
		assert.Zero(t, asked.Load(), "the API server is asked")
		close(gate)
		synctest.Wait()
		assert.NotZero(t, asked.Load(), "the API server is not asked")
		cancel()
		assert.NoError(t, <-ended)
		_ = r.stop()
	})
}

func TestStream_publishes_nothing_of_an_existing_object_when_asked(t *testing.T) {
	log, r, s := startNew(t, &StreamSpec{SkipSnapshot: true})
	snapshot(t, s, "10", "a u1 5")
	send(t, s, source.Updated, "a", "u1", "11", source.ReasonWatch)
	r.settle()
	expect(t, log.lines(), "updated default/a u1 11 watch")
}

func TestStream_decides_what_is_news_by_the_ledger(t *testing.T) {
	log, r, s := startNew(t, nil)
	for _, c := range []struct {
		op           source.Op
		uid, version string
	}{
		{source.Updated, "u1", "5"}, // unknown: added, whatever the watch calls it
		{source.Updated, "u1", "5"}, // the same again
		{source.Updated, "u1", "4"}, // older
		{source.Added, "u1", "6"},   // known: updated
		{source.Deleted, "u1", "7"},
		{source.Updated, "u1", "6"}, // a replay behind the deletion
		{source.Deleted, "u1", "7"},
		{source.Added, "u2", "8"},
		{source.Updated, "u3", "9"}, // another object under the same name
	} {
		send(t, s, c.op, "a", c.uid, c.version, source.ReasonWatch)
	}
	r.settle()
	expect(t, log.lines(),
		"added default/a u1 5 watch", "updated default/a u1 6 watch", "deleted default/a u1 7 watch",
		"added default/a u2 8 watch",
		"deleted default/a u2 8 watch", "added default/a u3 9 watch")
}

func TestStream_a_relist_announces_its_gap_and_finds_what_vanished(t *testing.T) {
	log, r, s := startNew(t, nil)
	snapshot(t, s, "10", "a u-a 5", "b u-b 5", "c u-c 5")
	send(t, s, source.Updated, "a", "u-a", "11", source.ReasonWatch)
	relist(t, s, "20", "a u-a 11", "b u-B 15") // a is unchanged, b was recreated
	r.settle()
	got := log.lines()[6:]
	slices.Sort(got[1:])
	expect(t, got, "gap 20",
		"added default/b u-B 15 relist", "deleted default/b u-b 5 relist", "deleted default/c u-c 5 relist")
	gap := log.log[6]
	for _, want := range []string{`"from":"10"`, `"to":"20"`, `"message":"compacted"`} {
		assert.Contains(t, string(gap.Data), want, "gap says %s, want %s in it", gap.Data, want)
	}
}

// crashingStore fails every commit after the first few, as if the process died before it.
type crashingStore struct {
	memoryStore
	left atomic.Int64
}

func (s *crashingStore) Commit(ctx context.Context, b *checkpoint.Batch) error {
	if s.left.Add(-1) < 0 {
		return errors.New("crashed")
	}
	return s.memoryStore.Commit(ctx, b)
}

func TestStream_a_snapshot_is_complete_only_when_its_position_is_safe(t *testing.T) {
	log, store := newFakeLog(), &crashingStore{}
	store.left.Store(1) // the one before the list
	_, s := startStream(t, log, store)
	note(t, s, source.Progress{Kind: source.SnapshotStarted, Version: "10"})
	send(t, s, source.Added, "a", "u1", "5", source.ReasonSnapshot)
	ctx, cancel := context.WithCancel(t.Context())
	listed := make(chan error, 1)
	go func() { listed <- s.Note(ctx, source.Progress{Kind: source.Listed, Version: "10", Objects: 1}) }()
	must.Happen(t, "the position", func() bool { return s.Tracker.Position() == "10" })
	cancel()
	assert.ErrorIs(t, <-listed, context.Canceled, "a list whose position is not safe ended, want that of the context")
	expect(t, log.lines(), "snapshot-started 10", "added default/a u1 5 snapshot")
}

// The objects that the list has found are on their way.
func TestStream_owes_a_list_until_it_is_acknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, store, r, s := listed(t, "10", "a u1 5")
		note(t, s, source.Progress{Kind: source.Gap, Version: "20", Why: source.Why{Message: "compacted"}})
		log.set(func() { log.ungated = true })
		gate := log.hold()
		send(t, s, source.Added, "b", "u2", "15", source.ReasonRelist)
		ended := make(chan error, 1)
		go func() { ended <- s.Note(t.Context(), source.Progress{Kind: source.Listed, Version: "20", Objects: 1}) }()
		synctest.Wait()
		assert.Empty(t, ended, "the list is complete")
		require.NoError(t, r.journal.Save(t.Context()))
		saved := store.state.Streams[s.Name]
		assert.Equal(t, sequence.Relist, saved.Owes.List)
		assert.Equal(t, "10", saved.Position)
		close(gate)
		require.NoError(t, <-ended)
		_ = r.stop()
	})
}

// The crash is between the commit and the marker, or between the marker and the next commit.
func TestStream_a_crash_leaves_one_word_of_a_complete_snapshot(t *testing.T) {
	for _, published := range []bool{false, true} {
		log, store := newFakeLog(), &crashingStore{}
		store.left.Store(2) // before the list, and after it
		if !published {
			log.refuse = func(m *sink.Message) bool { return strings.Contains(m.ID, "snapshot-completed") }
		}
		r, s := startStream(t, log, store)
		note(t, s, source.Progress{Kind: source.SnapshotStarted, Version: "10"})
		ctx, cancel := context.WithCancel(t.Context())
		listed := make(chan error, 1)
		go func() { listed <- s.Note(ctx, source.Progress{Kind: source.Listed, Version: "10"}) }()
		must.Happen(t, "the commit", func() bool { return store.left.Load() < 1 })
		if published {
			assert.NoError(t, <-listed)
		}
		cancel()
		_ = r.stop()
		log.refuse = nil
		log.forgetIDs()

		r, s = startStream(t, log, &store.memoryStore)
		version, _, ok := s.Resume()
		assert.True(t, ok && version == "10", "the stream resumes at %q, want the list's version", version)
		r.settle()
		expect(t, log.lines(), "snapshot-started 10", "snapshot-completed 10")
	}
}

// startLatest starts a pipeline whose one stream folds states. Its first event is under way, and the log is held.
func startLatest(t *testing.T, log sink.Sink, store checkpoint.Store) (*rig, *stream.Stream) {
	t.Helper()
	r := start(t, log, store)
	s := r.stream(&StreamSpec{Latest: true})
	send(t, s, source.Added, "a", "u1", "1", source.ReasonWatch)
	must.Happen(t, "the first event to be under way", func() bool { return r.delivery.Len() == 0 && underWay(s) })
	return r, s
}

func TestStream_latest_folds_what_waits_and_says_so(t *testing.T) {
	log := newFakeLog()
	log.gate = make(chan struct{})
	r, s := startLatest(t, log, &memoryStore{})
	for _, v := range []string{"2", "3", "4"} {
		send(t, s, source.Updated, "a", "u1", v, source.ReasonWatch)
	}
	send(t, s, source.Deleted, "a", "u1", "5", source.ReasonWatch)
	send(t, s, source.Added, "a", "u2", "6", source.ReasonWatch)
	send(t, s, source.Updated, "a", "u2", "7", source.ReasonWatch)
	close(log.gate)
	r.settle()
	expect(t, log.lines(), "added default/a u1 1 watch", "deleted default/a u1 5 watch 4", "added default/a u2 7 watch 2")
	assert.Equal(t, 0, s.Tracker.Pending(), "tickets are open, want none")
	assert.EqualValues(t, 0, r.budget.Bytes()-r.budget.Gone(), "bytes are held, want none")
}

// A process that dies takes with it how many changes an event was to stand for. The next one reads all of them again.
func TestStream_latest_stays_before_what_it_has_folded(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	log.gate = make(chan struct{})
	r, s := startLatest(t, log, store)
	for _, v := range []string{"2", "3", "4"} {
		send(t, s, source.Updated, "a", "u1", v, source.ReasonWatch)
	}
	log.gate <- struct{}{}
	must.Happen(t, "the first event to be acknowledged", func() bool { return s.Tracker.Position() != "" })
	assert.Equal(t, "1", s.Tracker.Position(), "a watch goes on behind what the log has")
	close(log.gate)
	r.settle()
	expect(t, log.lines(), "added default/a u1 1 watch", "updated default/a u1 4 watch 3")
}

// What a watch shows again behind something newer must not be folded over that.
func TestStream_latest_folds_nothing_old_over_what_waits(t *testing.T) {
	log := newFakeLog()
	log.gate = make(chan struct{})
	r, s := startLatest(t, log, &memoryStore{})
	send(t, s, source.Updated, "a", "u1", "3", source.ReasonWatch)
	send(t, s, source.Updated, "a", "u1", "2", source.ReasonWatch)
	close(log.gate)
	r.settle()
	expect(t, log.lines(), "added default/a u1 1 watch", "updated default/a u1 3 watch")
}

// The broker may have forgotten the id of a late message. The place of the last message refuses it then.
func TestStream_has_every_place_checked(t *testing.T) {
	const every, first = "checked checked checked", "checked unchecked unchecked"
	for _, c := range []struct {
		unfenced, latest bool
		want             string
	}{
		{false, false, every},
		{false, true, every},
		{true, false, first},
		{true, true, every},
	} {
		log := newFakeLog()
		var got []string
		log.refuse = func(m *sink.Message) bool { // told of each message, and refuses none
			got = append(got, map[bool]string{true: "checked", false: "unchecked"}[m.Verify])
			return false
		}
		r := start(t, log, &memoryStore{})
		s := r.stream(&StreamSpec{Latest: c.latest})
		s.Env.Checks = !c.unfenced
		for _, v := range []string{"1", "2", "3"} {
			send(t, s, source.Updated, "a", "u1", v, source.ReasonWatch)
			r.settle()
		}
		assert.Equal(t, c.want, strings.Join(got, " "), "%+v: the places of three events", c)
	}
}

// A gap stands behind everything that was read before it.
func TestStream_a_gap_waits_for_what_precedes_it(t *testing.T) {
	log := newFakeLog()
	_, s := startStream(t, log, &memoryStore{})
	snapshot(t, s, "10")
	gate := log.hold()
	send(t, s, source.Added, "a", "u1", "11", source.ReasonWatch)
	send(t, s, source.Updated, "a", "u1", "12", source.ReasonWatch)
	noted := make(chan error, 1)
	go func() {
		noted <- s.Note(t.Context(), source.Progress{Kind: source.Gap, Version: "20", Why: source.Why{Message: "compacted"}})
	}()
	gate <- struct{}{} // one message only
	must.Happen(t, "the second event to be under way", func() bool { return len(log.lines()) == 3 && underWay(s) })
	close(gate)
	require.NoError(t, <-noted)
	expect(t, log.lines()[2:], "added default/a u1 11 watch", "updated default/a u1 12 watch", "gap 20")
}

// The row of a dead object stays until nothing before its death can be shown again, and no longer.
func TestStream_a_tombstone_goes_when_the_position_has_passed_it(t *testing.T) {
	log, store := newFakeLog(), &memoryStore{}
	r, s := startStream(t, log, store)
	s.Saved.Owes = checkpoint.Owes{} // as behind a first list
	send(t, s, source.Added, "a", "u1", "1", source.ReasonWatch)
	send(t, s, source.Deleted, "a", "u1", "2", source.ReasonWatch)
	for _, c := range []struct {
		bookmark string
		rows     int
	}{{"1", 1}, {"3", 0}} {
		note(t, s, source.Progress{Kind: source.Bookmark, Version: c.bookmark})
		r.settle()
		require.NoError(t, r.journal.Commit(t.Context()))
		assert.Equal(t, c.rows, len(store.state.Rows[s.Name]), "rows are kept at position %s", s.Tracker.Position())
	}
}

func TestPipeline_a_refused_event_leaves_a_rejection_in_its_place(t *testing.T) {
	log := newFakeLog()
	log.refuse = func(m *sink.Message) bool { return strings.HasSuffix(m.ID, ".2.0") }
	r, s := startStream(t, log, &memoryStore{})
	for _, v := range []string{"1", "2", "3"} {
		send(t, s, source.Updated, "a", "u1", v, source.ReasonWatch)
	}
	r.settle()
	expect(t, log.lines(), "added default/a u1 1 watch", "rejected default/a u1 2 watch", "updated default/a u1 3 watch")
}

func TestStream_changed_selectors_list_again_under_an_epoch_of_their_own(t *testing.T) {
	log, store := newFakeLog(), &memoryStore{}
	first, s := startStream(t, log, store)
	snapshot(t, s, "10", "a u-a 5", "b u-b 6")
	first.settle()
	require.NoError(t, first.journal.Commit(t.Context()))
	_ = first.stop()

	second := start(t, log, store)
	second.env.Client = clientOf(t, newAPIServer(t, 10))
	epoch := s.Epoch
	s = second.stream(&StreamSpec{LabelSelector: "app=x"})
	_, _, ok := s.Resume()
	require.False(t, ok, "a stream with other selectors resumed")
	snapshot(t, s, "20", "a u-a 5")
	second.settle()
	expect(t, log.lines()[4:], "gap 20", "deleted default/b u-b 6 relist")
	assert.Greater(t, s.Epoch, epoch, "the epoch of another selection")
	assert.Equal(t, s.Epoch, must.Get(encode.StateOf(&log.log[5]))(t).Sequence.Epoch)
}

func TestPipeline_what_cannot_be_encoded_leaves_a_rejection_and_a_count(t *testing.T) {
	log, r, s := startNew(t, nil)
	send(t, s, source.Added, "a", "u1", "1", source.ReasonWatch)
	ticket := must.Get(s.Admit(t.Context(), "2", 2))(t)
	s.Deliver(source.Change{
		Op: source.Updated, Ident: source.Ident{Namespace: "default", Name: "a", UID: "u1", ResourceVersion: "2"},
		Body: source.NewBody([]byte("[]")), Reason: source.ReasonWatch, Seen: time.Now(), Ticket: ticket, Size: 2,
	})
	send(t, s, source.Updated, "a", "u1", "3", source.ReasonWatch)
	r.settle()
	expect(t, log.lines(), "added default/a u1 1 watch", "rejected default/a u1 2 watch", "updated default/a u1 3 watch")
	assert.EqualValues(t, 1, value(t, r.registry, "publish_failures_total"), "failures are counted")
	assert.EqualValues(t, 0, r.budget.Bytes(), "bytes are held, want none")
}

// The worker has taken the object from the queue, and not yet what waits.
func TestStream_latest_leaves_no_object_in_the_queue_with_nothing_to_do(t *testing.T) {
	to := &swiftLog{}
	p := newSession(New(Config{Name: "test", Buffer: 1 << 20, Metrics: health.NewMetrics(prometheus.NewRegistry())}),
		to)
	defer p.delivery.ShutDown()
	p.delivery.Publisher = to
	s, err := p.open(&StreamSpec{Latest: true, Encoding: encode.Config{Cluster: "test", Pipeline: "test"}},
		source.Stream{Resource: configMaps})
	require.NoError(t, err)
	send(t, s, source.Added, "a", "u1", "1", source.ReasonWatch)
	send(t, s, source.Updated, "a", "u1", "2", source.ReasonWatch)
	p.delivery.Next(t.Context())
	assert.Equal(t, 0, p.delivery.Len(), "objects are in the queue")
	assert.Equal(t, 0, s.Tracker.Pending(), "tickets are open")
}

// A million objects are read before each watch.
func TestStream_goes_on_while_what_it_knows_is_read(t *testing.T) {
	log, _, r, s := listed(t, "10", "a u1 5", "b u2 6")
	refuse(log, "b")
	live(t, s, []happening{{source.Updated, "b", "u2", "11"}})
	_, known, ok := s.Resume()
	require.True(t, ok)
	current := map[string]bool{}
	for id, is := range known {
		if assert.True(t, s.Mu.TryLock(), "the stream waits") {
			s.Mu.Unlock()
		}
		current[id.Name] = is
	}
	assert.Equal(t, map[string]bool{"a": true, "b": false}, current)
	_ = r.stop()
}
