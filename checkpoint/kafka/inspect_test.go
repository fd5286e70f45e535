// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"errors"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/session"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/storetest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func inspectFake(t *testing.T, f *fake, want checkpoint.Identity) (*Found, error) {
	t.Helper()
	return inspect(t.Context(), Config{Topic: "checkpoints"}.withDefaults(want), f)
}

func TestInspect_shows_what_was_committed_and_leaves_the_owner_alone(t *testing.T) {
	f := newFake(3)
	found, err := inspectFake(t, f, audit)
	assert.True(t, err == nil && found.Commits == 0 && found.State.Identity == (checkpoint.Identity{}),
		"%+v is in an empty topic, %v", found, err)
	s := mustOpen(t.Context(), t, f)
	want := storetest.Empty()
	for n := range 3 {
		b := manyRows(10, n)
		require.NoError(t, s.Commit(t.Context(), b))
		want = storetest.After(want, b)
		// Of the cluster only the name is known.
		found := must.Get(inspectFake(t, f, checkpoint.Identity{Cluster: audit.Cluster, Pipeline: audit.Pipeline}))(t)
		require.Equal(t, want, found.State, "after commit %d: commit %d holds", n+1, found.Commits)
		assert.Equal(t, uint64(n+1), found.Commits, "after commit %d: commit %d holds", n+1, found.Commits)
	}
}

func TestInspect_finds_nothing_where_there_is_no_topic_and_makes_none(t *testing.T) {
	f := newFake(0)
	found, err := inspectFake(t, f, audit)
	assert.True(t, err == nil && found.State.Identity == (checkpoint.Identity{}) && f.partitions == 0,
		"%+v, %d partitions, %v", found, f.partitions, err)
}

// Compaction removes what later records replace, before it was read.
func TestInspect_reads_on_until_nothing_comes(t *testing.T) {
	f := newFake(1)
	f.perFetch = 1
	s := mustOpen(t.Context(), t, f)
	require.NoError(t, s.Commit(t.Context(), manyRows(10, 1)))
	cfg := Config{Topic: "checkpoints"}.withDefaults(audit)
	l := newLog(&cfg, session.New(cfg.path(), audit, cfg.Patience), f)
	r := must.Get(l.locate(t.Context(), 1))(t)
	require.NoError(t, s.Commit(t.Context(), manyRows(10, 2)))
	require.NoError(t, l.catchUp(t.Context(), r, 1))
	want := storetest.After(storetest.After(storetest.Empty(), manyRows(10, 1)), manyRows(10, 2))
	assert.Equal(t, want, r.state(), "it holds")
}

func TestInspect_reads_a_commit_that_is_in_chunks_only(t *testing.T) {
	f, s := openNew(t, 1)
	s.out.limit = 4 << 10
	require.NoError(t, s.Commit(t.Context(), manyRows(200, 1)))
	want := storetest.After(storetest.Empty(), manyRows(200, 1))
	spoke := false
	for n := 1; n <= len(f.logs[0]); n++ { // as it was after each request
		found, err := inspectFake(t, f.copy(0, n), audit)
		switch {
		case err != nil:
			t.Fatal(err)
		case found.Commits == 0 && !spoke:
		case !reflect.DeepEqual(found.State, want):
			t.Errorf("after %d requests it holds %d rows", n, len(found.State.Rows["pods.v1"]))
		default:
			spoke = true
		}
	}
	assert.True(t, spoke, "the commit was not seen")
}

func TestInspect_says_what_is_damaged(t *testing.T) {
	f := newFake(1)
	require.NoError(t, mustOpen(t.Context(), t, f).Commit(t.Context(), manyRows(10, 1)))
	f.put(0, newKeys(Config{}.withDefaults(audit).Name).plain('?'), []byte{format})
	var damaged *checkpoint.DamagedError
	found, err := inspectFake(t, f, audit)
	assert.True(t, errors.As(err, &damaged), "%+v, error %v, want that it is damaged", found, err)
}
