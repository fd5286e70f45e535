// SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/file"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// written is a checkpoint in a file that has what state returns.
func written(t *testing.T) (f File, bridge *file.Store) {
	t.Helper()
	f = File(filepath.Join(t.TempDir(), "audit.db"))
	bridge = must.Get(file.Open(string(f), audit))(t)
	t.Cleanup(func() { _ = bridge.Close() })
	s := state()
	require.NoError(t,
		bridge.Commit(t.Context(), &checkpoint.Batch{Identity: audit, Log: &s.Log, Streams: s.Streams, Put: s.Rows}))
	return f, bridge
}

func resetPods(state *checkpoint.State) (*Change, error) { return Reset(state, []string{"pods.v1"}) }

func TestFile_of_a_running_bridge_is_shown_and_not_changed(t *testing.T) {
	f, bridge := written(t)
	if found, err := f.Look(t.Context()); err != nil || !reflect.DeepEqual(found.State, state()) {
		t.Errorf("it holds %+v, %v", found, err)
	}
	var running *RunningError
	if _, err := f.Change(t.Context(), resetPods); !errors.As(err, &running) {
		t.Errorf("error %v, want that a bridge runs", err)
	}
	if got := f.User(); !strings.HasPrefix(got, "A kube-eventbridge runs with it") {
		t.Errorf("of its user it says %q", got)
	}
	if got, err := bridge.Load(t.Context()); err != nil || !reflect.DeepEqual(got, state()) {
		t.Errorf("the bridge has %+v now, %v", got, err)
	}
}

func TestTopic_says_that_its_user_is_not_known(t *testing.T) {
	assert.Contains(t, (Topic{}).User(),
		"cannot be told now: before anything is changed its commits are waited for, for 5s.")
}

func TestFile_is_changed_after_a_copy_was_made(t *testing.T) {
	f, bridge := written(t)
	require.NoError(t, bridge.Close())
	assert.Empty(t, f.User(), "of nobody")
	first := must.Get(f.Change(t.Context(), resetPods))(t)
	if kept, err := file.Inspect(t.Context(), first); err != nil || !reflect.DeepEqual(kept, state()) {
		t.Errorf("the copy holds %+v, %v", kept, err)
	}
	now, err := file.Inspect(t.Context(), string(f))
	if err != nil || now.Streams["pods.v1"].Position != "" || len(now.Rows["pods.v1"]) > 0 || len(now.Rows) != len(state().Rows)-1 {
		t.Errorf("it holds %+v, %v", now, err)
	}
	second, err := f.Change(t.Context(), func(s *checkpoint.State) (*Change, error) { return Reset(s, nil) }) // within the same second, perhaps
	require.NoError(t, err)
	assert.NotEqual(t, first, second, "the second copy, the first")
	if now, err = file.Inspect(t.Context(), string(f)); err != nil || len(now.Rows) != 0 || len(now.Streams) != 1 {
		t.Errorf("it holds %+v, %v", now, err)
	}
}

func TestFile_where_nothing_moves_gets_no_copy(t *testing.T) {
	f, bridge := written(t)
	require.NoError(t, bridge.Close())
	backup, err := f.Change(t.Context(), func(*checkpoint.State) (*Change, error) { return &Change{}, nil })
	if all, _ := filepath.Glob(string(f) + "*"); err != nil || backup != "" || len(all) != 1 {
		t.Errorf("backup %q, %v, %v", backup, err, all)
	}
}

func TestFile_that_is_not_there_is_not_made(t *testing.T) {
	f := File(filepath.Join(t.TempDir(), "none.db"))
	found := must.Get(f.Look(t.Context()))(t)
	assert.Equal(t, (checkpoint.Identity{}), found.State.Identity, "it holds %+v", found)
	var unwritten *UnwrittenError
	if _, err := f.Change(t.Context(), resetPods); !errors.As(err, &unwritten) {
		t.Errorf("error %v, want that there is none", err)
	}
	if all, _ := filepath.Glob(filepath.Dir(string(f)) + "/*"); len(all) > 0 {
		t.Errorf("there is %v now", all)
	}
}
