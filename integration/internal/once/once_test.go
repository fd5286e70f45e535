// SPDX-License-Identifier: Apache-2.0

package once

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func nothing(string, ...any) {}

// left returns what is in the directory of a path beside the path and its lock.
func left(t *testing.T, path string) (names []string) {
	t.Helper()
	entries := must.Get(os.ReadDir(filepath.Dir(path)))(t)
	for _, e := range entries {
		if name := e.Name(); name != filepath.Base(path) && name != "."+filepath.Base(path)+".lock" {
			names = append(names, name)
		}
	}
	return names
}

func TestPath_is_made_once_however_many_ask(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache", "program")
	var made, waited atomic.Int32
	var others sync.WaitGroup
	others.Add(3)
	var g errgroup.Group
	for range 4 {
		g.Go(func() error {
			say := func(string, ...any) { waited.Add(1); others.Done() }
			return Path(t.Context(), path, say, func(tmp string) error {
				made.Add(1)
				others.Wait()
				return os.WriteFile(tmp, []byte("made"), 0o600)
			})
		})
	}
	if err := g.Wait(); err != nil || made.Load() != 1 || waited.Load() != 3 {
		t.Errorf("made %d times while %d waited, %v; want once, 3", made.Load(), waited.Load(), err)
	}
	b, err := os.ReadFile(path)
	assert.True(t, string(b) == "made" && len(left(t, path)) == 0, "there is %q, %v, and %q", b, err, left(t, path))
}

func TestPath_a_failure_leaves_nothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "directory")
	failure := errors.New("half of it")
	err := Path(t.Context(), path, nothing, func(tmp string) error {
		return errors.Join(os.MkdirAll(filepath.Join(tmp, "below"), 0o700), failure)
	})
	if _, there := os.Stat(path); !errors.Is(err, failure) || there == nil || len(left(t, path)) > 0 {
		t.Errorf("%v, and %q is left", err, left(t, path))
	}
}

func TestPath_a_wait_ends_with_its_context(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slow")
	err := Path(t.Context(), path, nothing, func(tmp string) error {
		ctx := must.Within(t, 50*time.Millisecond)
		err := Path(ctx, path, nothing, func(string) error { return errors.New("made twice at a time") })
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		return os.WriteFile(tmp, nil, 0o600)
	})
	assert.NoError(t, err)
}
