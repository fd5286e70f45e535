// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// What is read back or listed is ahead of the position. A watch from there would show what is older than that, so whoever goes on after a crash lists
// first.
func TestHistory_a_list_is_owed_from_what_is_read_back_until_it_is_complete(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	r, s := saved(t, log, store)
	owed := func(when string, want source.Owed) {
		t.Helper()
		assert.Equal(t, want, s.owed(), "%s: owed", when)
		assert.Equal(t, (checkpoint.Owed{Version: want.Version, Cause: want.Cause}), store.state.Streams[s.name].Owed,
			"%s: the store", when)
	}
	restart := func() {
		t.Helper()
		_ = r.stop()
		r, s = startStream(t, log, store)
	}
	owed("in the beginning", source.Owed{})

	note(t, s, source.Progress{Kind: source.Recovering, Version: "40", Why: source.Why{Message: "expired"}})
	owed("before anything is read back", source.Owed{Version: "40", Why: source.Why{Message: "expired"}})
	send(t, s, source.Updated, "a", "u1", "15", source.ReasonRecovered)
	r.settle()
	restart()
	owed("after a crash", source.Owed{Version: "40", Why: source.Why{Message: "expired"}})
	version, _, ok := s.Resume()
	assert.True(t, ok && version == "10", "it resumes at %q", version)

	note(t, s, source.Progress{Kind: source.Gap, Version: "41", Why: source.Why{Message: "expired; nothing"}})
	require.NoError(t, r.save(t.Context()))
	restart()
	owed("in the middle of the list", source.Owed{Version: "41", Why: source.Why{Message: "expired; nothing"}, Announced: true})

	note(t, s, source.Progress{Kind: source.Gap, Version: "41", Why: source.Why{Message: "expired; nothing"}})
	send(t, s, source.Added, "a", "u1", "41", source.ReasonRelist)
	note(t, s, source.Progress{Kind: source.Listed, Version: "41", Objects: 1})
	owed("when the list is complete", source.Owed{})
	checkOnce(t, log)
}

// A marker may be announced before what is known of the log ends, and its list is not complete there.
func TestRepair_goes_back_to_the_middle_of_a_list_and_announces_it_once(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	r, s := saved(t, log, store)
	note(t, s, source.Progress{Kind: source.Gap, Version: "40", Why: source.Why{Message: "expired"}})
	send(t, s, source.Added, "b", "u2", "20", source.ReasonRelist)
	r.settle()
	s.session.committing.Lock()
	s.session.extended = time.Time{} // a waypoint is due
	s.session.committing.Unlock()
	require.NoError(t, r.save(t.Context()))
	kept := len(log.lines())
	send(t, s, source.Added, "a", "u1", "5", source.ReasonRelist)
	note(t, s, source.Progress{Kind: source.Listed, Version: "40", Objects: 2})
	send(t, s, source.Updated, "b", "u2", "50", source.ReasonWatch)
	r.settle()
	r.stopSaved()
	log.lose(kept)
	log.forgetIDs()

	r, s = startStream(t, log, store)
	version, _, ok := s.Resume()
	require.True(t, ok && version == "10", "it resumes at %q", version)
	note(t, s, source.Progress{Kind: source.Gap, Version: "40", Why: source.Why{Message: "expired"}})
	r.settle()
	checkOnce(t, log)
}

// The marker of a gap is lost, and what was read back before it is not: a watch from the position would pass over what lies between.
func TestRepair_of_a_log_that_lost_a_gap_owes_its_list(t *testing.T) {
	for _, c := range []struct {
		name    string
		markers int  // of the gap, which the log keeps
		first   bool // the partition with the markers is read first
		want    checkpoint.Owed
	}{
		{"lost", 0, false, checkpoint.Owed{Version: "30", Cause: "the log has lost the gap behind what was read back"}},
		{"kept", 1, false, checkpoint.Owed{}},
		{"lost, in partitions", 0, true, checkpoint.Owed{Version: "30", Cause: "the log has lost the gap behind what was read back"}},
		{"kept, in partitions", 1, true, checkpoint.Owed{}},
	} {
		log, store := newReadableLog(), &memoryStore{}
		r, s := saved(t, log, store)
		note(t, s, source.Progress{Kind: source.Recovering, Version: "40", Why: source.Why{Message: "expired"}})
		send(t, s, source.Updated, "a", "u1", "30", source.ReasonRecovered)
		send(t, s, source.Added, "b", "u2", "20", source.ReasonRecovered)
		r.settle()
		kept := len(log.lines()) + c.markers
		note(t, s, source.Progress{Kind: source.Gap, Version: "40", Why: source.Why{Message: "expired"}})
		send(t, s, source.Added, "a", "u1", "30", source.ReasonRelist)
		send(t, s, source.Added, "b", "u2", "20", source.ReasonRelist)
		note(t, s, source.Progress{Kind: source.Listed, Version: "40", Objects: 2})
		send(t, s, source.Updated, "b", "u2", "50", source.ReasonWatch)
		r.settle()
		r.stopSaved()
		log.lose(kept)
		var to sink.Sink = log
		if c.first {
			to = byPartition{log}
		}
		s = start(t, to, store).stream(nil)
		assert.Equal(t, c.want, s.saved.Owed, "%s: owed", c.name)
	}
}

// What a gap in an older history ends at says nothing of a newer one.
func TestPlace_is_after_another_one_in_its_history(t *testing.T) {
	for _, c := range []struct {
		p, q place
		want bool
	}{
		{place{0, "5"}, place{}, true},
		{place{0, "5"}, place{0, "5"}, false},
		{place{0, "10"}, place{0, "9"}, true},
		{place{1, "5"}, place{0, "9"}, true},
		{place{0, "9"}, place{1, "5"}, false},
	} {
		assert.Equal(t, c.want, c.p.after(c.q), "%+v after %+v", c.p, c.q)
	}
	for id, want := range map[string]int{"gap.6c62272e.1-5": 0, "gap.6c62272e.1-5.h12": 12, "snapshot-started.6c62272e.5.h1": 1} {
		assert.Equal(t, want, historyOf(id), "%s is of history", id)
	}
}

func TestHistory_nothing_is_owed_where_a_list_that_was_heard_of_is_complete(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	_, s := saved(t, log, store)
	s.saved.Announced = "an older one"
	assert.Equal(t, (source.Owed{}), s.owed(), "owed")
	s.saved.Owed = checkpoint.Owed{Version: "40", Cause: "expired"}
	owed := s.owed()
	assert.False(t, owed.Announced, "owed %+v, and another gap was announced", owed)
}

// What a dead process left undone is done before anything is watched.
func TestRun_does_first_what_a_dead_process_owes(t *testing.T) {
	for name, owes := range map[string]func(*checkpoint.Stream){
		"a list":    func(s *checkpoint.Stream) { s.Owed = checkpoint.Owed{Version: "4", Cause: "expired"} },
		"a history": func(s *checkpoint.Stream) { s.Undone = "etcd was restored" },
	} {
		api, log, store := newAPIServer(t, 10), newFakeLog(), &memoryStore{}
		api.add(3)
		b := runBridge(t, api, log, store, nil)
		must.Happen(t, "the snapshot", func() bool { return len(log.lines()) == 5 })
		require.NoError(t, b.stop())
		saved := store.state.Streams["configmaps.v1"]
		owes(&saved)
		store.state.Streams["configmaps.v1"] = saved
		b = runBridge(t, api, log, store, nil)
		must.Happen(t, "the gap", func() bool { return len(log.lines()) > 5 })
		if line := log.lines()[5]; !strings.HasPrefix(line, "gap ") {
			t.Errorf("%s: the log goes on with %q", name, line)
		}
		api.add(1)
		must.Happen(t, "what comes after", func() bool {
			return slices.ContainsFunc(log.lines(), func(line string) bool { return strings.Contains(line, " 5 ") })
		})
		require.NoError(t, b.stop())
		if saved := store.state.Streams["configmaps.v1"]; saved.Owed != (checkpoint.Owed{}) || saved.Undone != "" {
			t.Errorf("%s: it is done, and the store says %+v", name, saved)
		}
	}
}
