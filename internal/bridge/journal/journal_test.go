// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/file"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/delivery"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/handover"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/membership"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

var at = source.Stream{Resource: source.Resource{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true}}

// open is a stream that has a state, and knows whether the store has it.
type open struct {
	state checkpoint.Stream
	saved bool
}

func (o *open) Changes() (checkpoint.Stream, bool, map[string]checkpoint.Row, []string) {
	return o.state, !o.saved, nil, nil
}
func (o *open) Committed(*checkpoint.Batch) { o.saved = true }
func (o *open) Doubt(*checkpoint.Batch)     { o.saved = false }

// opened is what opens a stream as it is stored.
func opened(has Stored) *open { return &open{state: has.Saved, saved: has.Current} }

func noRows() map[string]checkpoint.Row { return map[string]checkpoint.Row{} }

// newJournal returns a journal whose store has one stream, and that store.
func newJournal(t *testing.T) (*Journal[*open], checkpoint.Store) {
	t.Helper()
	identity := checkpoint.Identity{Cluster: "test", Pipeline: "test"}
	store := must.Get(file.Open(filepath.Join(t.TempDir(), "checkpoint.db"), identity))(t)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	require.NoError(t, store.Commit(t.Context(), &checkpoint.Batch{
		Identity: identity, Streams: map[string]checkpoint.Stream{at.Name(): {Position: "10", Epoch: 5}},
	}))
	j := New[*open](Config{
		Store: store, Identity: identity, Log: slog.New(slog.DiscardHandler), Epochs: &ledger.Epochs{},
		Offsets: delivery.NewOffsets(),
	})
	require.NoError(t, j.Load(t.Context()))
	return j, store
}

func TestClose_has_the_next_commit_save_what_changed_since_the_last(t *testing.T) {
	j, store := newJournal(t)
	s := must.Get(j.Open(at, opened))(t)
	s.state.Epoch, s.saved = 7, false // another stream has begun an epoch
	j.Close(at.Name(), noRows)
	require.NoError(t, j.Commit(t.Context()))
	assert.EqualValues(t, 7, must.Get(store.Load(t.Context()))(t).Streams[at.Name()].Epoch)
}

func TestOpenRetiring_has_the_next_commit_save_that_the_stream_retires(t *testing.T) {
	j, store := newJournal(t)
	must.Get(j.OpenRetiring(at, "a test", opened))(t)
	require.NoError(t, j.Commit(t.Context()))
	assert.True(t, must.Get(store.Load(t.Context()))(t).Streams[at.Name()].Retiring)
}

func TestMove_commits_the_epoch_that_it_gives(t *testing.T) {
	j, store := newJournal(t)
	to := source.Stream{Resource: at.Resource, Namespace: "shop"}
	require.NoError(t, j.Move(t.Context(), handover.Handover{
		From: []string{at.Name()}, To: []*membership.Assignment{{Stream: to, From: []string{at.Name()}}},
	}))
	has := must.Get(store.Load(t.Context()))(t)
	assert.Greater(t, has.Streams[to.Name()].Epoch, uint64(5))
	assert.Equal(t, has.Streams[to.Name()].Epoch, has.Log.Given)
}

func TestOpen_refuses_a_stream_that_is_open(t *testing.T) {
	j, _ := newJournal(t)
	must.Get(j.Open(at, opened))(t)
	_, err := j.Open(at, opened)
	assert.ErrorContains(t, err, "is open")
}
