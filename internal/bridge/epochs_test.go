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
	"golang.org/x/time/rate"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
	"github.com/kube-eventbridge/kube-eventbridge/source/reader"
)

var (
	secrets = source.Resource{Version: "v1", Resource: "secrets", Kind: "Secret", Namespaced: true}
	metrics = source.Resource{
		Group: "aggregated.example.com", Version: "v1", Resource: "numbers", Kind: "Number",
		Namespaced: true,
	}
)

func (r *rig) of(resource source.Resource) *stream.Stream {
	r.t.Helper()
	s, err := r.open(&StreamSpec{Encoding: encode.Config{Cluster: "test", Pipeline: r.cfg.Name}},
		source.Stream{Resource: resource})
	require.NoError(r.t, err)
	return s
}

// rewind lets a stream find out that etcd was restored, and begin another history.
func rewind(t *testing.T, s *stream.Stream, version string) {
	t.Helper()
	s.Mu.Lock()
	s.Epochs.Revoke(&source.Change{Ident: source.Ident{Name: "witness", ResourceVersion: "1"}, Listed: true}, "2")
	s.Mu.Unlock()
	beginHistory(t, s, source.Gap, version)
}

// The deletion of an object is undone, and nothing that its stream shows is older than the log: the object was changed,
// its name was used meanwhile.
func TestEpoch_that_one_stream_begins_is_that_of_all(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	r := start(t, log, store)
	a, b := r.of(configMaps), r.of(secrets)
	snapshot(t, a, "10", "x u1 5")
	snapshot(t, b, "10", "y u9 6")
	send(t, a, source.Deleted, "x", "u1", "20", source.ReasonWatch)
	send(t, a, source.Added, "x", "u2", "21", source.ReasonWatch)
	r.settle()

	rewind(t, b, "1000")
	require.NoError(t, r.journal.Save(t.Context()))
	first := b.Epoch
	for name, saved := range store.state.Streams {
		assert.Equal(t, first, saved.Epoch, "the store says of %s", name)
		assert.Equal(t, sequence.Republish, saved.Owes.List, "the store says of %s", name)
		assert.Empty(t, saved.Position, "the store says of %s", name)
	}
	snapshot(t, b, "1000", "y u9 6")
	select {
	case why := <-a.Epochs.Again:
		assert.Equal(t, source.CauseRestored, why.Cause)
	default:
		t.Error("the other stream is not asked to list")
	}
	note(t, a, source.Progress{Kind: source.Recovering, Version: "900", Why: source.Why{Message: "expired"}})
	beginHistory(t, a, source.Gap, "1000")
	assert.Equal(t, (reader.Owed{}), a.Lists.Owed(), "a list is owed that does not compare")
	snapshot(t, a, "1000", "x u1 900")
	send(t, a, source.Deleted, "x", "u1", "1001", source.ReasonWatch)
	r.settle()
	checkOnce(t, log)
	assert.Equal(t, first, a.Saved.Epoch, "after one restoration")
	assert.NoError(t, b.Epochs.Mismatched(), "the one that was told tells the one that has found out")
	assert.Contains(t, log.lines(), "deleted default/x u2 21 relist", "the log")

	rewind(t, a, "2000") // the next one
	assert.Error(t, b.Epochs.Mismatched(), "the second restoration is not told")
	assert.Greater(t, a.Epoch, first)
}

// The version was given once more, to another write.
func TestEpoch_begins_where_the_object_of_a_version_was_written_at_another_time(t *testing.T) {
	const nine, ten = "2026-11-17T09:00:00Z", "2026-11-17T10:00:00Z"
	for name, c := range map[string]struct {
		first, second string
		rewound       bool
	}{
		"another time":             {nine, ten, true},
		"the same time":            {nine, nine, false},
		"a list without times":     {nine, "", false},
		"an event without a time":  {"", ten, false},
		"neither of the two tells": {"", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			log, store := newReadableLog(), &memoryStore{}
			r, s := startStream(t, log, store)
			note(t, s, source.Progress{Kind: source.SnapshotStarted, Version: "10"})
			show(t, s, c.first)
			note(t, s, source.Progress{Kind: source.Listed, Version: "10", Objects: 1})
			r.stopSaved()

			_, s = startStream(t, log, store) // the time is stored
			note(t, s, source.Progress{Kind: source.Gap, Version: "20"})
			show(t, s, c.second)
			cause := s.Epochs.Mismatched()
			require.Equal(t, c.rewound, cause != nil, "%v", cause)
			if c.rewound {
				assert.ErrorContains(t, cause,
					"object default/a was at resourceVersion 5 and the API server has it there in another state")
			}
		})
	}
}

// A resync lists while the stream goes on: nothing else may show that etcd was restored.
func TestResync_finds_a_state_that_was_written_at_another_time(t *testing.T) {
	const nine, ten = "2026-11-17T09:00:00Z", "2026-11-17T10:00:00Z"
	for written, same := range map[string]bool{nine: true, ten: false} {
		_, s := startStream(t, newReadableLog(), &memoryStore{})
		note(t, s, source.Progress{Kind: source.SnapshotStarted, Version: "10"})
		show(t, s, nine)
		note(t, s, source.Progress{Kind: source.Listed, Version: "10", Objects: 1})
		s.Status.State(source.Watching, nil)
		api := &lister{objects: []string{"a u1 5 " + written}}
		_, err := kube.Current(t.Context(), api.client(t), s.At(), func(item *kube.Item) error {
			queued, err := s.Resyncer.RepublishOne(t.Context(), item.Ident, item, 7, rate.NewLimiter(rate.Inf, 1))
			assert.Equal(t, same, queued, "published again")
			if !queued {
				s.Resyncer.Coming(item, s.Epoch)
			}
			return err
		})
		require.NoError(t, err)
		assert.Equal(t, same, s.Epochs.Mismatched() == nil, "it compares")
	}
}

// show has a list show an object at version 5, which was written at a time.
func show(t *testing.T, s *stream.Stream, written string) {
	t.Helper()
	metadata := `"name":"a","namespace":"default","uid":"u1","resourceVersion":"5"`
	if written != "" {
		metadata += `,"managedFields":[{"manager":"m","time":"` + written + `"}]`
	}
	body := source.NewBody([]byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{` + metadata + `}}`))
	ticket := must.Get(s.Admit(t.Context(), "", len(body.Bytes())))(t)
	s.Deliver(source.Change{
		Op: source.Added, Ident: source.Ident{Namespace: "default", Name: "a", UID: "u1", ResourceVersion: "5"},
		Body: body, Reason: source.ReasonSnapshot, Listed: true, Seen: time.Now(), Ticket: ticket, Size: len(body.Bytes()),
	})
}

func TestEpoch_begins_in_the_middle_of_a_list_when_another_stream_has_seen_it(t *testing.T) {
	log := newReadableLog()
	r := start(t, log, &memoryStore{})
	a, b, idle := r.of(configMaps), r.of(secrets), r.of(metrics)
	snapshot(t, b, "10", "y u9 6")
	note(t, a, source.Progress{Kind: source.SnapshotStarted, Version: "10"})
	send(t, a, source.Added, "x", "u1", "5", source.ReasonSnapshot)
	rewind(t, b, "1000")
	send(t, a, source.Added, "z", "u2", "7", source.ReasonSnapshot)
	assert.Error(t, a.Note(t.Context(), source.Progress{Kind: source.Listed, Version: "10", Objects: 2}),
		"a list of what was undone is complete")
	if slices.ContainsFunc(log.lines(), func(line string) bool { return strings.Contains(line, "default/z") }) {
		t.Errorf("what was listed after that is published: %q", log.lines())
	}
	assert.NoError(t, idle.Epochs.Mismatched(), "a stream that has published nothing")
}

// What another API server has lost says nothing of the rest. Events may have an etcd of their own.
func TestEpoch_of_a_stream_with_versions_of_its_own_is_not_told(t *testing.T) {
	events := source.Resource{Version: "v1", Resource: "events", Kind: "Event", Namespaced: true}
	for cause, resource := range map[source.Cause]source.Resource{
		source.CauseRebuilt:           metrics,
		source.CauseRestored + " own": events,
	} {
		log := newReadableLog()
		r := start(t, log, &memoryStore{})
		a, other := r.of(configMaps), r.of(resource)
		snapshot(t, a, "10", "x u1 5")
		snapshot(t, other, "10", "y u9 6")
		rewind(t, other, "1000")
		snapshot(t, other, "1000", "y u9 6")
		assert.NoError(t, a.Epochs.Mismatched(), "%s", cause)
		assert.Greater(t, other.Epoch, a.Epoch, "%s", cause)
		rewind(t, a, "1000")
		assert.NoError(t, other.Epochs.Mismatched(), "%s: the restoration that it has found out itself", cause)
		rewind(t, a, "2000")
		assert.Error(t, other.Epochs.Mismatched(), "%s: it is not told of the next restoration", cause)
	}
}

// Before the first event of the epoch the store has it for all streams, also for those that do not run.
func TestEpoch_holds_after_a_crash(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	r := start(t, log, store)
	a, b := r.of(configMaps), r.of(secrets)
	snapshot(t, a, "10", "x u1 5")
	snapshot(t, b, "10", "y u9 6")
	r.stopSaved()

	r = start(t, log, store)
	b = r.of(secrets)
	rewind(t, b, "1000")
	r.stopSaved()
	assert.Equal(t, "restored", store.state.Streams["configmaps.v1"].Owes.Cause, "of a stream that does not run")

	r = start(t, log, store)
	for _, s := range []*stream.Stream{r.of(configMaps), r.of(secrets)} {
		assert.Equal(t, b.Epoch, s.Epoch, "stream %s", s.Name)
		assert.Equal(t, b.Epoch, s.Since.Load(), "stream %s", s.Name)
		assert.Equal(t, "10", s.Saved.Owes.From, "stream %s", s.Name)
		_, _, ok := s.Resume()
		assert.False(t, ok, "stream %s resumes", s.Name)
	}
}

// A number is durable before an event carries it, and so is what the stream owes until its list is in the log.
func TestEpoch_is_saved_before_it_is_published(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	log.set(func() {
		log.acknowledging = func(string) {
			state, err := store.Load(t.Context())
			assert.NoError(t, err)
			log.mu.Lock()
			defer log.mu.Unlock()
			st, err := encode.StateOf(&log.log[len(log.log)-1])
			saved := state.Streams["configmaps.v1"]
			assert.NoError(t, err)
			assert.LessOrEqual(t, st.Sequence.Epoch, state.Log.Given, "%s is published", st.ID)
			assert.LessOrEqual(t, st.Sequence.Epoch, saved.Epoch, "%s is published", st.ID)
			if st.Sequence.Epoch > 0 {
				assert.GreaterOrEqual(t, saved.Owes.List, sequence.Reselect, "%s is published", st.ID)
			}
		}
	})
	r, s := startStream(t, log, store)
	snapshot(t, s, "10", "a u1 5")
	restored(t, s)
	snapshot(t, s, "12", "a u1 5")
	r.settle()
	require.NoError(t, r.retire(t.Context(), t.Context(), s, always(source.ReasonDeselected), "a test"))
	r.stopSaved()
	var epochs []uint64
	for i := range log.log {
		if st, err := encode.StateOf(&log.log[i]); err == nil && st.UID != "" {
			epochs = append(epochs, st.Sequence.Epoch)
		}
	}
	assert.True(t, len(epochs) == 3 && 0 < epochs[0] && epochs[0] < epochs[1] && epochs[1] < epochs[2],
		"the epochs are %v", epochs)
}

func TestEpoch_is_greater_than_all_that_were_given(t *testing.T) {
	const given = 8_000_000_000
	store := &memoryStore{}
	store.state.Log.Given = given
	_, s := startStream(t, newReadableLog(), store)
	assert.Greater(t, s.Epoch, uint64(given))
}

// Another stream has begun an epoch, in which this one is about to list. What its watch shows until then is of before.
func TestEpoch_of_a_change_is_that_of_its_stream(t *testing.T) {
	log := newReadableLog()
	r := start(t, log, &memoryStore{})
	a, b := r.of(configMaps), r.of(secrets)
	snapshot(t, a, "10", "x u1 5")
	snapshot(t, b, "10", "y u9 6")
	before := a.Epoch
	rewind(t, b, "1000")
	require.Greater(t, a.Saved.Epoch, before)
	send(t, a, source.Added, "z", "u2", "30", source.ReasonWatch)
	r.settle()
	last := must.Get(encode.StateOf(&log.log[len(log.log)-1]))(t)
	assert.Equal(t, "z", last.Name)
	assert.Equal(t, before, last.Sequence.Epoch)
}

func TestEpoch_of_a_stream_that_resumes_is_not_less_than_that_of_a_row(t *testing.T) {
	log, store, r, s := listed(t, "10", "a u1 5")
	r.stopSaved()
	row := store.state.Rows[s.Name]["default/a"]
	row.Epoch += 5
	store.state.Rows[s.Name]["default/a"] = row
	_, s = startStream(t, log, store)
	assert.Equal(t, row.Epoch, s.Epoch)
	assert.Equal(t, row.Epoch, s.Saved.Epoch)
}

func TestEpoch_of_a_selection_that_stays_is_the_same(t *testing.T) {
	log, store, r, s := listed(t, "10", "a u1 5")
	r.stopSaved()
	before := s.Epoch
	_, s = startStream(t, log, store)
	assert.Equal(t, before, s.Epoch)
	version, _, ok := s.Resume()
	assert.True(t, ok && version == "10", "it resumes at %q", version)
}

func TestStream_counts_versions_that_are_no_numbers(t *testing.T) {
	_, _, s := startNew(t, nil)
	s.Mu.Lock()
	defer s.Mu.Unlock()
	x := &checkpoint.Row{ResourceVersion: "x", Version: 1}
	assert.EqualValues(t, 1, s.Number("x", nil))
	assert.EqualValues(t, 2, s.Number("y", x))
	assert.EqualValues(t, 1, s.Number("x", x), "the row has it")
	assert.EqualValues(t, 7, s.Number("7", x), "it is a number")
	ledger.BeginEpoch(&s.Saved, s.Epoch+1, "", source.Why{})
	assert.EqualValues(t, 3, s.Number("z", nil), "in another epoch")
}

// announcing is a log whose writer announces an epoch before it writes.
type announcing struct {
	*fakeLog
	epoch     func() uint64
	announced chan uint64
}

func (a announcing) Run(ctx context.Context) error {
	a.announced <- a.epoch()
	return a.fakeLog.Run(ctx)
}

// Nothing of the log is known before the announcement, so that a lost checkpoint has no epoch to announce.
func TestEpoch_that_a_writer_announces_is_not_lower_than_those_of_the_log(t *testing.T) {
	api, store := newAPIServer(t, 10), &memoryStore{}
	began, log, announced := uint64(time.Now().Unix()), newFakeLog(), make(chan uint64, 1)
	start := func() (b *bridge, epoch uint64) {
		b = runBridge(t, api, log, store, func(c *Config) {
			c.Sink = func(epoch func() uint64) (sink.Sink, error) { return announcing{log, epoch, announced}, nil }
		})
		return b, <-announced
	}
	b, epoch := start()
	assert.GreaterOrEqual(t, epoch, began, "where no checkpoint is")
	b.only(t)
	must.Happen(t, "the snapshot", func() bool { return len(log.lines()) == 2 })
	require.NoError(t, b.stop())

	b, epoch = start()
	assert.Equal(t, store.state.Log.Given, epoch, "where one is")
	require.NoError(t, b.stop())
}

// An entry was removed, so that its stream retires. In that moment another stream finds that etcd was restored.
func TestEpoch_that_another_stream_begins_leaves_the_ends_of_one_that_retires(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	r := start(t, log, store)
	stays, goes := r.of(configMaps), r.of(secrets)
	require.NoError(t, r.journal.Commit(t.Context()))
	snapshot(t, stays, "100", "x u1 50")
	snapshot(t, goes, "100", "y u9 60")
	r.settle()
	require.NoError(t, r.journal.Save(t.Context()))
	r.close(goes)
	const why = "the configuration does not select it"
	retires, err := r.openRetiring(&StreamSpec{Encoding: encode.Config{Cluster: "test", Pipeline: "test"}}, goes.Stream,
		why)
	require.NoError(t, err)
	stays.Epochs.BeginEpoch(&source.RewoundError{Stream: stays.Name, Position: "100", Server: "70"})
	require.NoError(t, r.retire(t.Context(), t.Context(), retires, always(source.ReasonDeselected), why))
	assert.Contains(t, strings.Join(log.lines(), "\n"), "deleted default/y u9")
	require.NoError(t, r.stop())
}
