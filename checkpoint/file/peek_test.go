// SPDX-License-Identifier: Apache-2.0

package file

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestPeek_shows_what_another_process_has_open_and_leaves_it_alone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.db")
	s := mustOpen(t, path)
	mustCommit(t, s, batch(100, 1))
	want := mustLoad(t, s)
	got, saved := must.Get2(Peek(t.Context(), path))(t)
	assert.True(t, same(got, want), "the copy holds %v, want %v", got, want)
	age := time.Since(saved)
	assert.True(t, age >= -time.Minute && age <= time.Minute, "saved %v ago", age)
	mustCommit(t, s, batch(100, 2))
}

// Between any two commits all rows have one version.
func TestPeek_sees_each_commit_in_full_or_not_at_all(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.db")
	s := mustOpen(t, path)
	mustCommit(t, s, batch(500, 1))
	var writing sync.WaitGroup
	defer writing.Wait()
	ctx, peeked := context.WithCancel(t.Context())
	defer peeked()
	writing.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for v := 2; ctx.Err() == nil; v++ {
			if err := s.Commit(context.WithoutCancel(ctx), batch(500, v)); err != nil {
				t.Error(err)
				return
			}
			<-tick.C
		}
	})
	for range 10 {
		state, _, err := Peek(t.Context(), path)
		if errors.Is(err, errUnsteady) {
			continue // a bridge commits once a second, not always
		}
		require.NoError(t, err)
		version := state.Streams["pods.v1"].Position
		for key, row := range state.Rows["pods.v1"] {
			require.Equal(t, version, row.ResourceVersion, "row %s, the position", key)
		}
	}
}

func TestPeek_names_the_file_that_it_cannot_read(t *testing.T) {
	dir := t.TempDir()
	assert.ErrorIs(t, must.Err(Peek(t.Context(), filepath.Join(dir, "none.db"))), fs.ErrNotExist,
		"want that it does not exist")
	strange := filepath.Join(dir, "strange.db")
	require.NoError(t, os.WriteFile(strange, []byte(strings.Repeat("no checkpoint ", 1000)), 0o600))
	torn := filepath.Join(dir, "torn.db")
	s := mustOpen(t, torn)
	mustCommit(t, s, batch(1000, 1))
	mustClose(t, s)
	require.NoError(t, os.Truncate(torn, 20<<10))
	for _, path := range []string{strange, torn} {
		var damaged *checkpoint.DamagedError
		if _, _, err := Peek(t.Context(), path); !errors.As(err, &damaged) || damaged.Path != path {
			t.Errorf("error %v, want that %s is damaged", err, path)
		}
	}
}

func TestBackup_is_a_checkpoint_that_a_bridge_can_go_on_with(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, filepath.Join(dir, "audit.db"))
	mustCommit(t, s, batch(100, 1))
	want := mustLoad(t, s)
	copied := filepath.Join(dir, "audit.db.bak")
	require.NoError(t, s.Backup(copied))
	mustCommit(t, s, batch(100, 2))
	assert.ErrorIs(t, s.Backup(copied), fs.ErrExist, "it exists")
	b := mustOpen(t, copied)
	got := mustLoad(t, b)
	assert.True(t, same(got, want), "the copy holds %v, want %v", got, want)
	mustCommit(t, b, batch(100, 3))
}

func TestBackup_that_fails_leaves_nothing(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, filepath.Join(dir, "audit.db"))
	assert.ErrorIs(t, s.Backup(filepath.Join(dir, "none", "audit.bak")), fs.ErrNotExist,
		"error, want that there is no such directory")
	mustClose(t, s)
	copied := filepath.Join(dir, "audit.bak")
	assert.ErrorIs(t, s.Backup(copied), errClosed, "the store is closed")
	assert.ErrorIs(t, must.Err(os.Stat(copied)), fs.ErrNotExist, copied)
}
