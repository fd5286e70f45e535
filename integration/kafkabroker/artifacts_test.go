// SPDX-License-Identifier: Apache-2.0

package kafkabroker

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// fake puts programs, shell scripts by name, alone in PATH, for a cache of its own, and returns the cache.
func fake(t *testing.T, scripts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	path := []string{filepath.Join(dir, "bin"), filepath.Join(dir, "tools")}
	for _, d := range path {
		require.NoError(t, os.Mkdir(d, 0o755))
	}
	// What the scripts need, and nothing else: java and mvn may be beside them.
	for _, name := range []string{"mkdir", "touch", "tail"} {
		real := must.Get(exec.LookPath(name))(t)
		require.NoError(t, os.Symlink(real, filepath.Join(path[1], name)))
	}
	for name, script := range scripts {
		require.NoError(t, os.WriteFile(filepath.Join(path[0], name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	t.Setenv("PATH", strings.Join(path, ":"))
	t.Setenv("KUBE_EVENTBRIDGE_CACHE", filepath.Join(dir, "cache"))
	return filepath.Join(dir, "cache")
}

const goodJava = `echo 'openjdk version "21.0.2" 2024-01-16' >&2`

func TestInstall_says_what_is_missing(t *testing.T) {
	for name, c := range map[string]struct {
		scripts map[string]string
		want    string
	}{
		"no java": {map[string]string{}, "apt-get install default-jre-headless"},
		"an old java": {
			map[string]string{"java": `echo 'java version "1.8.0_402"'`},
			"is version 1.8.0_402; install Java 17",
		},
		"a broken java":  {map[string]string{"java": "exit 1"}, "install Java 17"},
		"a strange java": {map[string]string{"java": "echo hello"}, "install Java 17"},
		"no mvn":         {map[string]string{"java": goodJava}, "apt-get install maven"},
		"no network": {
			map[string]string{"java": goodJava, "mvn": "echo half > lib; echo 'no route to host'; exit 1"},
			"no route to host",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cache := fake(t, c.scripts)
			err := Install(t.Context(), nil)
			require.ErrorIs(t, err, ErrUnavailable)
			assert.Contains(t, err.Error(), c.want)
			left, _ := filepath.Glob(filepath.Join(cache, "*"))
			assert.LessOrEqual(t, len(left), 1, "left %q, want no more than the lock", left)
		})
	}
}

func TestInstall_ends_with_its_context(t *testing.T) {
	cache := fake(t, map[string]string{"java": goodJava, "mvn": "exec tail -f /dev/null"})
	ctx := must.Within(t, 300*time.Millisecond)
	assert.ErrorIs(t, Install(ctx, nil), context.DeadlineExceeded)
	left, _ := filepath.Glob(filepath.Join(cache, "*"))
	assert.LessOrEqual(t, len(left), 1, "left %q, want no more than the lock", left)
}
