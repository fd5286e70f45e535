// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/delivery"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// publishLate is what a process does that does not know yet that another one has replaced it.
func publishLate(t *testing.T, log readableLog, c source.Change) {
	t.Helper()
	e := encode.New(source.Stream{Resource: configMaps}, encode.Config{Cluster: "test", Pipeline: "test"})
	m := &sink.Message{}
	c.Namespace, c.Reason, c.Seen = "default", cmp.Or(c.Reason, source.ReasonWatch), time.Now()
	c.Body = source.NewBody([]byte(`{"metadata":{"name":"` + c.Name + `"}}`))
	require.NoError(t, e.Change(m, &c))
	must.Get(log.store(m))(t)
}

// The position says that everything up to it is known. The object of a message that says otherwise may be gone.
func TestReadBack_a_list_is_owed_for_a_late_message(t *testing.T) {
	for name, c := range map[string]struct {
		uid     string
		version string
		again   int64
		want    sequence.Owes
	}{
		"a newer state of a known object":      {"u1", "15", 0, sequence.Relist},
		"a state that the position covers not": {"u1", "25", 0, sequence.Nothing},
		"the state that is known":              {"u1", "5", 0, sequence.Nothing},
		"an older state":                       {"u1", "4", 0, sequence.Nothing},
		"a state that is published again":      {"u1", "15", 7, sequence.Nothing},
	} {
		t.Run(name, func(t *testing.T) {
			log, store, r, s := listed(t, "10", "a u1 5")
			note(t, s, source.Progress{Kind: source.Bookmark, Version: "20"})
			r.stopSaved()
			log.forgetIDs()
			late := source.Change{
				Op: source.Updated, Ident: source.Ident{Name: "a", UID: c.uid, ResourceVersion: c.version},
				Epoch: s.Epoch, Version: ledger.Numeric(c.version), Again: c.again,
			}
			if c.again > 0 {
				late.Reason = source.ReasonResync
			}
			publishLate(t, log, late)

			_, s = startStream(t, log, store)
			assert.Equal(t, c.want, s.Saved.Owes.List)
			version, _, ok := s.Resume()
			assert.True(t, ok && version == "20", "it resumes at %q", version)
			if c.want == sequence.Nothing {
				return
			}
			assert.Equal(t, "20", s.Lists.Owed().Version, "a list that is older shows nothing")
			relist(t, s, "30")
			settleNow(t, s)
			lines := log.lines()
			expect(t, lines[len(lines)-2:], "gap 30", "deleted default/a u1 15 relist")
		})
	}
}

// A process has published what the log lacked of refused objects, and died before it could save that.
func TestReadBack_no_list_is_owed_for_an_object_that_was_refused(t *testing.T) {
	log, store, r, s := listed(t, "10", "a u1 5")
	note(t, s, source.Progress{Kind: source.Bookmark, Version: "20"})
	r.stopSaved()
	log.forgetIDs()
	saved := store.state.Streams[s.Name]
	for name, uid := range map[string]string{"a": "u1", "new": "u2"} {
		saved.Refused = append(saved.Refused, checkpoint.Refused{Key: "default/" + name, Changes: 1, Version: "15"})
		publishLate(t, log, source.Change{
			Op: source.Updated, Ident: source.Ident{Name: name, UID: uid, ResourceVersion: "15"}, Epoch: s.Epoch, Version: 15,
		})
	}
	slices.SortFunc(saved.Refused, func(a, b checkpoint.Refused) int { return ledger.ByKey(a, b.Key) })
	store.state.Streams[s.Name] = saved

	r, s = startStream(t, log, store)
	assert.Equal(t, sequence.Nothing, s.Saved.Owes.List)
	require.Equal(t, 2, s.Ledger.Len())
	_ = r.stop()
}

// A process that could not save has published the end of an object under whose name there is another one by then. That
// is not of a process that was replaced, though the position covers the end. An object that is not selected may be
// again.
func TestReadBack_a_list_is_owed_for_the_end_of_a_known_state_only_if_it_is_deselected(t *testing.T) {
	for reason, want := range map[source.Reason]sequence.Owes{
		source.ReasonWatch: sequence.Nothing, source.ReasonRelist: sequence.Nothing, source.ReasonDeselected: sequence.Relist,
	} {
		log, store, r, s := listed(t, "10", "a u1 5")
		note(t, s, source.Progress{Kind: source.Bookmark, Version: "20"})
		r.stopSaved()
		log.forgetIDs()
		publishLate(t, log, source.Change{
			Op: source.Deleted, Ident: source.Ident{Name: "a", UID: "u1", ResourceVersion: "5"}, Epoch: s.Epoch, Version: 5,
			Reason: reason,
		})

		r, s = startStream(t, log, store)
		assert.Equal(t, want, s.Saved.Owes.List, reason)
		assert.Zero(t, s.Ledger.Len(), reason)
		_ = r.stop()
	}
}

// The log has an epoch that the checkpoint has not given: it is an older one. What the log has is not published again.
func TestRebuild_from_the_log_where_the_checkpoint_is_an_older_one(t *testing.T) {
	log, store, r, s := listed(t, "10", "a u1 5", "b u2 6", "c u3 7")
	require.NoError(t, r.journal.Save(t.Context()))
	older := *must.Get(store.Load(t.Context()))(t)
	restored(t, s)
	snapshot(t, s, "20", "a u1 5", "b u2 15", "c u3 7")
	r.stopSaved()
	newest := s.Epoch
	store.state = older
	log.forgetIDs()

	r, s = startStream(t, log, store)
	assert.Equal(t, sequence.Reselect, s.Saved.Owes.List)
	assert.Equal(t, "checkpoint-lost", s.Saved.Owes.Cause)
	assert.Equal(t, "10", s.Saved.Owes.From, "the gap begins at the position that is known")
	assert.Greater(t, s.Epoch, newest)
	assert.Empty(t, store.state.Streams[s.Name].Position, "no position holds")
	assert.False(t, s.Saved.ResyncDue, "the log has all")
	before := len(log.lines())
	snapshot(t, s, "30", "a u1 5", "b u2 25")
	r.settle()
	got := log.lines()[before+1:]
	slices.Sort(got)
	expect(t, got, "deleted default/c u3 7 relist", "updated default/b u2 25 relist")
}

// Resyncs of several streams have numbers ahead of the clock. What is published again after a lost checkpoint must not
// have an id that the log has.
func TestRebuild_gives_no_number_of_a_resync_again(t *testing.T) {
	log, store, r, s := listed(t, "10", "a u1 5")
	number := time.Now().Unix() + 100
	resync := source.Marker{Kind: source.MarkerResyncStarted, Epoch: s.Epoch, To: "10", Number: number}
	require.NoError(t, s.Lists.QueueMarker(&delivery.Marker{Marker: resync}).Wait(t.Context()))
	r.stopSaved()
	store.state = checkpoint.State{}
	r, _ = startStream(t, log, store)
	assert.Equal(t, number+1, r.env.NextResync(0))
	assert.Equal(t, number, store.state.Log.Resyncs)
}

// The log has a marker of a namespace that a selector takes, and no object of it.
func TestRebuild_goes_on_from_the_marker_of_a_selected_namespace(t *testing.T) {
	log := newReadableLog()
	m := &sink.Message{}
	at := source.Stream{Resource: configMaps, Namespace: "shop"}
	encode.New(at, encode.Config{Cluster: "test", Pipeline: "test"}).Marker(m, source.Marker{
		Kind: source.MarkerSnapshotCompleted, Epoch: 5, To: "10", Seen: time.Now(),
	})
	must.Get(log.append(m))(t)
	r := startOf(t, log, &memoryStore{}, StreamSpec{Resource: "configmaps", NamespaceSelector: labels.Everything()})
	saved := r.journal.State().Streams["configmaps.v1/shop"]
	assert.Equal(t, "checkpoint-lost", saved.Owes.Cause)
	assert.Equal(t, "10", saved.Owes.From)
}

// A writer with a newer checkpoint has started, and has published nothing.
func TestRebuild_where_a_writer_has_started_with_a_greater_epoch(t *testing.T) {
	log, store, r, _ := listed(t, "10", "a u1 5")
	r.stopSaved()
	started := r.epochs.Last() + 1000
	startWriter(t, log, started)
	_, s := startStream(t, log, store)
	assert.Greater(t, s.Epoch, started)
	assert.Equal(t, "checkpoint-lost", s.Saved.Owes.Cause)
}

func TestRepair_takes_an_epoch_that_is_greater_than_all_in_the_log(t *testing.T) {
	log, store, r, _ := listed(t, "10", "a u1 5")
	r.stopSaved()
	started := r.epochs.Last() + 1000
	startWriter(t, log, started)
	store.state.Log.Ends[0] += 9 // the log had more
	_, s := startStream(t, log, store)
	assert.Greater(t, s.Epoch, started)
	assert.Equal(t, "log-lost", s.Saved.Owes.Cause)
}

// startWriter adds the message of a writer that has started.
func startWriter(t *testing.T, log readableLog, epoch uint64) {
	t.Helper()
	_ = must.Get(log.append(&sink.Message{ID: "writer-started.4.1", Subject: "k8s._writer", Attributes: []sink.Attribute{
		{Name: "id", Value: "writer-started.4.1"},
		{Name: "source", Value: "/clusters/test/pipelines/test"},
		{Name: "type", Value: "io.kube-eventbridge.writer.started.v1"},
		{Name: "pipeline", Value: "test"},
	}}))(t)
	log.log[len(log.log)-1].Epoch = epoch
}

// Another bridge publishes with a newer checkpoint.
func TestStream_interrupts_the_pipeline_at_an_epoch_that_was_not_given(t *testing.T) {
	_, _, r, s := listed(t, "10", "a u1 5")
	seen := &encode.State{UID: "u1", ResourceVersion: "6"}
	for _, more := range []uint64{0, 1} {
		seen.Sequence = sequence.Sequence{Epoch: r.epochs.Last() + more, Version: 6}
		s.Publication.Found(&delivery.Object{Key: "default/a"}, seen, 9)
		require.Len(t, r.failure, int(more))
	}
	var interrupted *sink.InterruptedError
	assert.ErrorAs(t, <-r.failure, &interrupted)
}

// Where the log may lack the last event of an object, consumers learn by a resync what is gone.
func TestRebuild_from_a_log_that_may_lack_something_is_followed_by_a_resync(t *testing.T) {
	for name, disturb := range map[string]func(readableLog, *memoryStore) bool{
		"it is whole": func(readableLog, *memoryStore) bool { return false },
		"nothing is left": func(log readableLog, _ *memoryStore) bool {
			log.trim(len(log.lines()) + 1)
			laterSecond(t)
			return true
		},
		"its begin is gone":  func(log readableLog, _ *memoryStore) bool { log.trim(3); return true },
		"a rewind broke off": func(log readableLog, store *memoryStore) bool { replayed(t, log, store); return true },
	} {
		t.Run(name, func(t *testing.T) {
			log, store, r, s := listed(t, "10", "a u1 5", "b u2 6")
			live(t, s, []happening{{source.Updated, "a", "u1", "12"}, {source.Updated, "a", "u1", "14"}})
			note(t, s, source.Progress{Kind: source.Bookmark, Version: "20"})
			r.stopSaved()
			due := disturb(log, store)
			store.state = checkpoint.State{}
			spec := StreamSpec{Resource: "configmaps"}
			r = startOf(t, log, store, spec)
			s = r.stream(&spec)
			assert.Equal(t, due, s.Saved.ResyncDue)
			saved, _, _ := s.Checkpoint()
			assert.Equal(t, due, saved.ResyncDue, "what a crash finds")

			snapshot(t, s, "30", "a u1 14", "b u2 6")
			s.Resyncer.AskIfDue()
			_, asked := s.Resyncer.Resync.Begin()
			assert.False(t, asked, "a resync begins before the stream watches")
			s.Status.State(source.Watching, nil)
			s.Resyncer.AskIfDue()
			_, asked = s.Resyncer.Resync.Begin()
			assert.Equal(t, due, asked, "when it watches")
			s.Resyncer.NotDue()
			assert.False(t, s.Saved.ResyncDue, "after it")
		})
	}
}

// replayed rewinds a stopped bridge, and kills it in the middle.
func replayed(t *testing.T, log readableLog, store *memoryStore) {
	t.Helper()
	store.rewind()
	r, s := startStream(t, log, store)
	send(t, s, source.Updated, "a", "u1", "12", source.ReasonWatch)
	r.settleAndStop()
}

// wholeLog cannot select the last message of each key.
type wholeLog struct{ readableLog }

func (l wholeLog) Read(ctx context.Context, q sink.Query, f func(*sink.Stored) error) error {
	q.LastOfKey = false
	return l.readableLog.Read(ctx, q, f)
}

// The log has an older state of two objects last. What they are now is told again, under a number that is durable.
func TestRebuild_tells_again_what_a_rewind_has_covered(t *testing.T) {
	log, store := wholeLog{newReadableLog()}, &memoryStore{}
	r, s := startStream(t, log, store)
	first := s.Epoch
	snapshot(t, s, "10", "a u1 5", "b u2 6")
	all := []happening{
		{source.Updated, "a", "u1", "12"},
		{source.Updated, "b", "u2", "13"},
		{source.Updated, "a", "u1", "14"},
		{source.Deleted, "b", "u2", "15"},
	}
	live(t, s, all)
	note(t, s, source.Progress{Kind: source.Bookmark, Version: "20"})
	r.stopSaved()
	store.rewind()
	r, s = startStream(t, log, store)
	live(t, s, all[:2])
	_ = r.stop()

	before := len(log.lines())
	store.state = checkpoint.State{}
	spec := StreamSpec{Resource: "configmaps"}
	r = startOf(t, log, store, spec)
	s = r.stream(&spec)
	for key, version := range map[string]uint64{"default/a": 14, "default/b": 15} {
		row, _ := s.Ledger.Get(key)
		assert.True(t, row.Behind && row.Version == version, "%s: %+v", key, row)
	}
	snapshot(t, s, "30", "a u1 14")
	r.settle()
	got := log.lines()[before:]
	slices.Sort(got[1:])
	expect(t, got, "gap 30", "deleted default/b u2 15 relist", "updated default/a u1 14 relist")
	for _, m := range log.log[before+1:] {
		_, n, ok := strings.Cut(m.ID, ".r")
		number := must.Get(strconv.ParseInt(n, 10, 64))(t)
		stored := store.state.Log.Resyncs
		assert.True(t, ok && number > 7 && number <= stored, "%s, and the store has %d", m.ID, stored)
		assert.Equal(t, first, must.Get(encode.StateOf(&m))(t).Sequence.Epoch, "%s has another sequence than before", m.ID)
	}
	row, _ := s.Ledger.Get("default/a")
	assert.False(t, row.Behind, "%+v", row)
}
