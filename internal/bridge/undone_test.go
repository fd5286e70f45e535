// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

var (
	secrets = source.Resource{Version: "v1", Resource: "secrets", Kind: "Secret", Namespaced: true}
	metrics = source.Resource{Group: "aggregated.example.com", Version: "v1", Resource: "numbers", Kind: "Number", Namespaced: true}
)

func (r *rig) of(resource source.Resource) *stream {
	r.t.Helper()
	s, err := r.open(&StreamSpec{Encoding: encode.Config{Cluster: "test", Pipeline: r.name}}, source.Stream{Resource: resource})
	require.NoError(r.t, err)
	return s
}

// rewind lets a stream find out that etcd was restored, and begin another history.
func rewind(t *testing.T, s *stream, version string) {
	t.Helper()
	s.mu.Lock()
	s.revoke(&source.Change{Ident: source.Ident{Name: "witness", ResourceVersion: "1"}, Listed: true}, "2", 0)
	s.mu.Unlock()
	beginHistory(t, s, source.Gap, version)
}

// The deletion of an object is undone, and nothing that its stream shows is older than the log: the object was changed, its name was used meanwhile.
func TestHistory_that_one_stream_has_seen_to_end_ends_in_all(t *testing.T) {
	log := newReadableLog()
	r := start(t, log, &memoryStore{})
	a, b := r.of(configMaps), r.of(secrets)
	snapshot(t, a, "10", "x u1 5")
	snapshot(t, b, "10", "y u9 6")
	send(t, a, source.Deleted, "x", "u1", "20", source.ReasonWatch)
	send(t, a, source.Added, "x", "u2", "21", source.ReasonWatch)
	r.settle()

	rewind(t, b, "1000")
	snapshot(t, b, "1000", "y u9 6")
	select {
	case <-a.again:
	default:
		t.Error("the other stream is not asked to list")
	}
	note(t, a, source.Progress{Kind: source.Recovering, Version: "900", Cause: "expired"})
	beginHistory(t, a, source.Gap, "1000")
	assert.Equal(t, (source.Owed{}), a.owed(), "a list is owed of the history that has ended")
	snapshot(t, a, "1000", "x u1 900")
	send(t, a, source.Deleted, "x", "u1", "1001", source.ReasonWatch)
	r.settle()
	checkOnce(t, log)
	assert.Equal(t, 1, a.saved.History, "histories %d and %d after one restoration", a.saved.History, b.saved.History)
	assert.Equal(t, 1, b.saved.History, "histories %d and %d after one restoration", a.saved.History, b.saved.History)
	assert.NoError(t, b.doubted(), "the one that was told tells the one that has found out")
	assert.Contains(t, log.lines(), "deleted default/x u2 21 relist", "the log")

	rewind(t, a, "2000") // the next one
	assert.Error(t, b.doubted(), "the second restoration is not told")
}

func TestHistory_ends_in_the_middle_of_a_list_when_another_stream_has_seen_it(t *testing.T) {
	log := newReadableLog()
	r := start(t, log, &memoryStore{})
	a, b, idle := r.of(configMaps), r.of(secrets), r.of(metrics)
	snapshot(t, b, "10", "y u9 6")
	note(t, a, source.Progress{Kind: source.SnapshotStarted, Version: "10"})
	send(t, a, source.Added, "x", "u1", "5", source.ReasonSnapshot)
	rewind(t, b, "1000")
	send(t, a, source.Added, "z", "u2", "7", source.ReasonSnapshot)
	assert.Error(t, a.Note(t.Context(), source.Progress{Kind: source.Listed, Version: "10", Objects: 2}),
		"a list of the history that was undone is complete")
	if slices.ContainsFunc(log.lines(), func(line string) bool { return strings.Contains(line, "default/z") }) {
		t.Errorf("what was listed after that is published: %q", log.lines())
	}
	err := idle.doubted()
	assert.True(t, err == nil && idle.saved.Undone == "", "a stream that has published nothing is doubted: %v", err)
}

// What another API server's history does says nothing of the rest. If it was etcd after all, the stream that has begun one on its own does not begin two.
func TestHistory_that_may_be_of_another_API_server_is_not_told_and_begins_once(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	r := start(t, log, store)
	a, other := r.of(configMaps), r.of(metrics)
	snapshot(t, a, "10", "x u1 5")
	snapshot(t, other, "10", "y u9 6")
	rewind(t, other, "1000")
	snapshot(t, other, "1000", "y u9 6")
	require.NoError(t, a.doubted())
	r.stopSaved()

	r = start(t, log, store)
	a, other = r.of(configMaps), r.of(metrics)
	rewind(t, a, "1000")
	snapshot(t, a, "1000", "x u1 5")
	if err := other.doubted(); err != nil || other.saved.Undone != "" {
		t.Errorf("the restoration that it has found out itself ends its history: %v", err)
	}
	rewind(t, a, "2000")
	assert.Error(t, other.doubted(), "it is not told of the next one")
}

// Before the first event of the history that has begun the store knows that the others are over, also of streams that are not read.
func TestHistory_that_is_over_stays_over_after_a_crash(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	r := start(t, log, store)
	a, b := r.of(configMaps), r.of(secrets)
	snapshot(t, a, "10", "x u1 5")
	snapshot(t, b, "10", "y u9 6")
	r.stopSaved()

	r = start(t, log, store)
	rewind(t, r.of(secrets), "1000")
	r.stopSaved()
	assert.Contains(t, store.state.Streams["configmaps.v1"].Undone, "etcd was restored",
		"of a stream that is not read the store")

	r = start(t, log, store)
	a, b = r.of(configMaps), r.of(secrets)
	for _, s := range []*stream{a, b} {
		require.NoError(t, s.resumeUndone(t.Context()))
		assert.True(t, s.saved.History == 1 && s.position() == "" && s.saved.Gap.From == "10",
			"stream %s: history %d, position %q, gap %+v", s.name, s.saved.History, s.position(), s.saved.Gap)
	}
	require.NoError(t, r.save(t.Context()))
	for name, saved := range store.state.Streams {
		assert.Empty(t, saved.Undone, "stream %s: %+v", name, saved)
		assert.Equal(t, (checkpoint.Owed{}), saved.Owed, "stream %s: %+v", name, saved)
	}
}

// Between the last commit of a stream and its end another one finds out. Whatever the stream goes on as, a crash finds its history over.
func TestHistory_that_is_over_stays_over_in_a_stream_that_is_closed(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	r, s := saved(t, log, store)
	s.over(&source.RewoundError{Stream: "secrets.v1"})
	r.close(s)
	again := r.of(configMaps)
	require.NoError(t, r.commit(t.Context()))
	assert.NotEmpty(t, again.saved.Undone, "the stream, the store")
	assert.NotEmpty(t, store.state.Streams[s.name].Undone, "the stream, the store")
}

func TestHistory_that_is_over_is_so_under_the_name_that_a_stream_has_then(t *testing.T) {
	for name, end := range map[string]func(*rig, source.Stream, source.Stream) error{
		"carried": func(r *rig, from, to source.Stream) error { return r.carry(r.t.Context(), from, to) },
		"ended":   func(r *rig, _, _ source.Stream) error { return r.bury(r.t.Context(), r.of(configMaps)) },
	} {
		log, store := newReadableLog(), &memoryStore{}
		r, s := saved(t, log, store)
		_ = r.stop()
		r = start(t, log, store)
		rewind(t, r.of(secrets), "1000")
		other := configMaps
		other.Version = "v2"
		to := source.Stream{Resource: other}
		require.NoError(t, end(r, s.Stream, to))
		require.NoError(t, r.save(t.Context()))
		if from := store.state.Streams[s.name]; from.Position != "" {
			t.Errorf("%s: what was forgotten is stored again: %+v", name, from)
		}
		next := store.state.Streams[to.Name()]
		if name == "ended" { // whatever begins under its name begins in the next history
			next = r.of(configMaps).saved
		}
		if next.Undone == "" && next.History == 0 {
			t.Errorf("%s: the history is not over: %+v", name, store.state.Streams)
		}
	}
}
