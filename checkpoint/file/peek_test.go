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

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestPeek_shows_what_another_process_has_open_and_leaves_it_alone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.db")
	s := mustOpen(t, path)
	mustCommit(t, s, batch(100, 1))
	want := mustLoad(t, s)
	got, saved, err := Peek(t.Context(), path)
	if err != nil || !same(got, want) {
		t.Errorf("the copy holds %v, want %v, %v", got, want, err)
	}
	if age := time.Since(saved); age < -time.Minute || age > time.Minute {
		t.Errorf("saved %v ago", age)
	}
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
		if err != nil {
			t.Fatal(err)
		}
		version := state.Streams["pods.v1"].Position
		for key, row := range state.Rows["pods.v1"] {
			if row.ResourceVersion != version {
				t.Fatalf("row %s is at %s, the position at %s", key, row.ResourceVersion, version)
			}
		}
	}
}

func TestPeek_names_the_file_that_it_cannot_read(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := Peek(t.Context(), filepath.Join(dir, "none.db")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want that it does not exist", err)
	}
	strange := filepath.Join(dir, "strange.db")
	must.Do(t, os.WriteFile(strange, []byte(strings.Repeat("no checkpoint ", 1000)), 0o600))
	torn := filepath.Join(dir, "torn.db")
	s := mustOpen(t, torn)
	mustCommit(t, s, batch(1000, 1))
	mustClose(t, s)
	must.Do(t, os.Truncate(torn, 20<<10))
	for _, path := range []string{strange, torn} {
		var damaged *DamagedError
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
	must.Do(t, s.Backup(copied))
	mustCommit(t, s, batch(100, 2))
	if err := s.Backup(copied); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error %v, want that it exists", err)
	}
	b := mustOpen(t, copied)
	if got := mustLoad(t, b); !same(got, want) {
		t.Errorf("the copy holds %v, want %v", got, want)
	}
	mustCommit(t, b, batch(100, 3))
}

func TestBackup_that_fails_leaves_nothing(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, filepath.Join(dir, "audit.db"))
	if err := s.Backup(filepath.Join(dir, "none", "audit.bak")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want that there is no such directory", err)
	}
	mustClose(t, s)
	copied := filepath.Join(dir, "audit.bak")
	if err := s.Backup(copied); !errors.Is(err, errClosed) {
		t.Errorf("error %v, want that the store is closed", err)
	}
	if _, err := os.Stat(copied); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is there, %v", copied, err)
	}
}
