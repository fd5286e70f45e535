// SPDX-License-Identifier: Apache-2.0

package file

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/storetest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestDiscard_moves_an_older_versions_checkpoint_away(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.db")
	commitOnce(t, path)
	edit(t, path, "meta", "format", "1")
	before := must.Get(os.ReadFile(path))(t)
	taken := filepath.Join(filepath.Dir(path), "taken")
	overwrite(t, taken, []byte("x"))
	require.ErrorIs(t, Discard(path, taken), fs.ErrExist)
	require.NoError(t, Discard(path, path+".bak"))
	assert.Equal(t, before, must.Get(os.ReadFile(path+".bak"))(t), "it is kept")
	assert.Equal(t, "x", string(must.Get(os.ReadFile(taken))(t)), "what was there is kept")
	state := mustLoad(t, mustOpen(t, path))
	assert.True(t, same(state, storetest.Empty()), "the next one begins with %+v", state)
}

func TestDiscard_leaves_other_checkpoints_alone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.db")
	s := mustOpen(t, path)
	mustCommit(t, s, batch(3, 1))
	var busy *BusyError
	require.ErrorAs(t, Discard(path, path+".bak"), &busy, "one that is used")
	mustClose(t, s)
	require.ErrorContains(t, Discard(path, path+".bak"), "this version can read it")
	edit(t, path, "meta", "format", "3")
	var newer *checkpoint.FormatError
	require.ErrorAs(t, Discard(path, path+".bak"), &newer)
	require.ErrorIs(t, Discard(path+".none", path+".bak"), fs.ErrNotExist)
	assert.FileExists(t, path)
	assert.NoFileExists(t, path+".bak")
}
