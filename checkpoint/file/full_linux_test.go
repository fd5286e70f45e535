// SPDX-License-Identifier: Apache-2.0

package file

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A limit on the size of files stands for a full disk. It holds for a whole process, and go test's own files too: so
// the test is a process of its own.
func TestStore_survives_a_full_disk(t *testing.T) {
	const inside = "CHECKPOINT_FULL_DISK"
	if os.Getenv(inside) == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		child.Env = append(os.Environ(), inside+"=1")
		out, err := child.CombinedOutput()
		require.True(t, err == nil && strings.Contains(string(out), "--- PASS: "+t.Name()), "%v\n%s", err, out)
		return
	}
	path := filepath.Join(t.TempDir(), "audit.db")
	s := mustOpen(t, path)
	mustCommit(t, s, batch(100, 1))
	before := mustLoad(t, s)
	info, err := os.Stat(path)
	require.NoError(t, err)
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
	full := limit
	full.Cur = uint64(info.Size())
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full))
	err = s.Commit(t.Context(), batch(20_000, 2))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	require.ErrorContains(t, err, syscall.EFBIG.Error(), "commit: error, want one that says why")
	assert.True(t, same(mustLoad(t, s), before), "the state changed")
	mustCommit(t, s, batch(20_000, 3))
	want := mustLoad(t, s)
	mustClose(t, s)
	require.True(t, same(mustLoad(t, mustOpen(t, path)), want), "the commit after it is not there")
	assert.Len(t, want.Rows["pods.v1"], 20_000, "the commit after it is not there")
}
