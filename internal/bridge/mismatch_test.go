// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// A list shows an object that cannot be of the time that the log has the last event of its name from.
func TestEpoch_begins_for_each_mismatch_that_a_list_shows(t *testing.T) {
	for mismatch, c := range map[sequence.Mismatch]struct {
		before []happening
		exists string
	}{
		sequence.ObjectOlder:   {[]happening{{source.Updated, "a", "u1", "20"}}, "a u1 15"},
		sequence.OtherObject:   {[]happening{{source.Updated, "a", "u1", "20"}}, "a u2 20"},
		sequence.EndNotOlder:   {[]happening{{source.Deleted, "a", "u1", "20"}}, "a u2 15"},
		sequence.UnknownObject: {nil, "b u2 9"},
	} {
		t.Run(string(mismatch), func(t *testing.T) {
			log, store, r, s := listed(t, "10", "a u1 5")
			live(t, s, c.before)
			require.NoError(t, r.journal.Save(t.Context()))
			before := s.Epoch
			note(t, s, source.Progress{Kind: source.Gap, Version: "1000", Why: source.Why{Message: "compacted"}})
			f := strings.Fields(c.exists)
			send(t, s, source.Added, f[0], f[1], f[2], source.ReasonRelist)
			beginHistory(t, s, source.Listed, "1000")
			assert.Greater(t, s.Epoch, before)
			saved, _, _ := s.Checkpoint()
			assert.Equal(t, sequence.Republish, saved.Owes.List)
			assert.Equal(t, "restored", saved.Owes.Cause)
			assert.Equal(t, s.Epoch, saved.Since)
			assert.Empty(t, saved.Position, "no position holds")

			snapshot(t, s, "1000", c.exists)
			r.stopSaved()
			last := must.Get(encode.StateOf(&log.log[len(log.log)-1]))(t)
			assert.Equal(t, s.Epoch, last.Sequence.Epoch, "%s", last.ID)
			assert.Equal(t, checkpoint.Owes{}, store.state.Streams[s.Name].Owes, "what is owed in the end")
			assert.Equal(t, "1000", store.state.Streams[s.Name].Position)
		})
	}
}

// Each of these is what a bridge can have published before, or what is about to come.
func TestEpoch_goes_on_where_a_list_compares(t *testing.T) {
	for name, c := range map[string]struct {
		before []happening
		exists []string
	}{
		"a newer state":          {nil, []string{"a u1 15"}},
		"another object":         {nil, []string{"a u2 15"}},
		"the name is used again": {[]happening{{source.Deleted, "a", "u1", "20"}}, []string{"a u2 25"}},
		"a new object":           {nil, []string{"a u1 5", "b u2 15"}},
		"the log is ahead":       {[]happening{{source.Updated, "a", "u1", "2000"}}, []string{"a u1 15"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, r, s := listed(t, "10", "a u1 5")
			live(t, s, c.before)
			before := s.Epoch
			relist(t, s, "1000", c.exists...)
			r.settle()
			assert.Equal(t, before, s.Epoch)
		})
	}
}

// What was published can be ahead of the position. A server that is behind it is another one.
func TestStream_compares_a_server_with_the_newest_row_of_its_epoch(t *testing.T) {
	_, _, r, s := listed(t, "10", "a u1 5")
	held := s.Tracker.Open("11", time.Now()) // something holds the position
	send(t, s, source.Deleted, "a", "u1", "20", source.ReasonWatch)
	r.settle()
	version, _, ok := s.Resume()
	assert.True(t, ok && version == "10", "it resumes at %q", version)
	assert.Equal(t, "20", s.Newest())
	s.Tracker.Settle(held)
	restored(t, s)
	assert.Empty(t, s.Newest(), "versions of another epoch are compared")
}

// watchedStore calls check with what it has after each commit.
type watchedStore struct {
	memoryStore
	check func(*checkpoint.State)
}

func (s *watchedStore) Commit(ctx context.Context, b *checkpoint.Batch) error {
	err := s.memoryStore.Commit(ctx, b)
	state, _ := s.memoryStore.Load(ctx)
	s.check(state)
	return err
}

// One stream has begun an epoch, and no commit, whenever it is made, has it for that stream alone.
func TestEpoch_of_all_streams_is_in_one_commit(t *testing.T) {
	log, store := newReadableLog(), &watchedStore{check: func(*checkpoint.State) {}}
	r := start(t, log, store)
	closed := r.of(source.Resource{Version: "v1", Resource: "services", Kind: "Service", Namespaced: true})
	snapshot(t, closed, "10", "s u7 4")
	r.stopSaved()

	r = start(t, log, store)
	a, b := r.of(configMaps), r.of(secrets)
	snapshot(t, a, "10", "x u1 5")
	snapshot(t, b, "10", "y u9 6")
	require.NoError(t, r.journal.Save(t.Context()))
	first := r.epochs.Last()
	store.check = func(state *checkpoint.State) {
		epochs := map[uint64]bool{}
		for _, saved := range state.Streams {
			epochs[max(first, saved.Epoch)] = true
		}
		assert.Len(t, epochs, 1, "%+v", state.Streams)
		assert.GreaterOrEqual(t, state.Log.Given, slices.Max(slices.Collect(maps.Keys(epochs))), "given")
	}
	ctx, cancel := context.WithCancel(t.Context())
	var commits sync.WaitGroup
	commits.Go(func() {
		for ctx.Err() == nil {
			assert.NoError(t, r.journal.Commit(t.Context()))
		}
	})
	rewind(t, b, "1000")
	require.NoError(t, r.journal.Save(t.Context()))
	cancel()
	commits.Wait()
	assert.Greater(t, store.state.Streams[closed.Name].Epoch, first, "of a stream that is not open")
	assert.Equal(t, sequence.Republish, store.state.Streams[closed.Name].Owes.List)
}
