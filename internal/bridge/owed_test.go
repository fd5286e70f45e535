// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/reader"
)

// What is read back or listed is ahead of the position. A watch from there would show what is older than that, so
// whoever goes on after a crash lists first.
func TestHistory_a_list_is_owed_from_what_is_read_back_until_it_is_complete(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	r, s := saved(t, log, store)
	owed := func(when string, want reader.Owed) {
		t.Helper()
		assert.Equal(t, want, s.Lists.Owed(), "%s: owed", when)
		has := store.state.Streams[s.Name].Owes
		assert.Equal(t, want.Version, has.Version, "%s: the store", when)
		assert.Equal(t, want.Message, has.Message, "%s: the store", when)
		assert.Equal(t, want.Version != "", has.List == sequence.Relist, "%s: the store", when)
	}
	restart := func() {
		t.Helper()
		_ = r.stop()
		r, s = startStream(t, log, store)
	}
	owed("in the beginning", reader.Owed{})

	note(t, s, source.Progress{Kind: source.Recovering, Version: "40", Why: source.Why{Message: "expired"}})
	owed("before anything is read back", reader.Owed{Version: "40", Why: source.Why{Message: "expired"}})
	send(t, s, source.Updated, "a", "u1", "15", source.ReasonRecovered)
	r.settle()
	restart()
	owed("after a crash", reader.Owed{Version: "40", Why: source.Why{Message: "expired"}})
	version, _, ok := s.Resume()
	assert.True(t, ok && version == "10", "it resumes at %q", version)

	note(t, s, source.Progress{Kind: source.Gap, Version: "41", Why: source.Why{Message: "expired; nothing"}})
	require.NoError(t, r.journal.Save(t.Context()))
	restart()
	owed("in the middle of the list", reader.Owed{
		Version: "41", Why: source.Why{Message: "expired; nothing"},
		Announced: true,
	})

	note(t, s, source.Progress{Kind: source.Gap, Version: "41", Why: source.Why{Message: "expired; nothing"}})
	send(t, s, source.Added, "a", "u1", "41", source.ReasonRelist)
	note(t, s, source.Progress{Kind: source.Listed, Version: "41", Objects: 1})
	owed("when the list is complete", reader.Owed{})
	checkOnce(t, log)
}

func TestHistory_nothing_is_owed_where_a_list_that_was_heard_of_is_complete(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	_, s := saved(t, log, store)
	s.Saved.Announced = "an older one"
	assert.Equal(t, (reader.Owed{}), s.Lists.Owed(), "owed")
	s.Saved.Owes = checkpoint.Owes{List: sequence.Relist, Version: "40", Cause: "expired"}
	owed := s.Lists.Owed()
	assert.False(t, owed.Announced, "owed %+v, and another gap was announced", owed)
}

// What a dead process left undone is done before anything is watched.
func TestRun_does_first_what_a_dead_process_owes(t *testing.T) {
	for name, owes := range map[string]checkpoint.Owes{
		"a list":              {List: sequence.Relist, From: "4", Version: "4", Cause: "expired"},
		"another selection":   {List: sequence.Reselect, From: "4", Cause: "selection"},
		"all of another time": {List: sequence.Republish, From: "4", Cause: "restored"},
		"a repair":            {List: sequence.Repair, From: "4", Cause: "log-lost"},
	} {
		api, log, store := newAPIServer(t, 10), newFakeLog(), &memoryStore{}
		api.add(3)
		b := runBridge(t, api, log, store, nil)
		must.Happen(t, "the snapshot", func() bool { return len(log.lines()) == 5 })
		require.NoError(t, b.stop())
		saved := store.state.Streams["configmaps.v1"]
		saved.Owes = owes
		if owes.List > sequence.Relist {
			saved.Epoch++
		}
		if owes.List > sequence.Reselect {
			saved.Since = saved.Epoch
		}
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
		s := b.only(t)
		must.Happen(t, "the end of what was owed", func() bool {
			s.Mu.Lock()
			defer s.Mu.Unlock()
			return s.Saved.Owes.List == sequence.Nothing
		})
		require.NoError(t, b.stop())
		assert.Equal(t, checkpoint.Owes{}, store.state.Streams["configmaps.v1"].Owes, "%s: it is done, and the store says",
			name)
		again := slices.ContainsFunc(log.lines()[6:], func(line string) bool { return strings.Contains(line, " 2 ") })
		assert.Equal(t, owes.List > sequence.Reselect, again, "%s: what existed is published again: %q", name, log.lines())
		checkOnce(t, readableLog{fakeLog: log})
	}
}
