// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// asWriter, in the environment of this test's program, makes it write as bbolt does: the file's name.
const asWriter = "KUBE_EVENTBRIDGE_TEST_WRITER"

// asMounter, in the environment of this test's program, makes it mount the disk of a world: the world's directory.
const asMounter = "KUBE_EVENTBRIDGE_TEST_MOUNTER"

// writer makes one commit, and says how far it came.
func writer() {
	page := os.Getpagesize()
	f, err := os.OpenFile(os.Getenv(asWriter), os.O_CREATE|os.O_RDWR, 0o600)
	for _, next := range []func() error{
		func() error { return f.Truncate(int64(4 * page)) },
		func() error { _, err := f.WriteAt(bytes.Repeat([]byte("p"), page), int64(3*page)); return err },
		func() error { return f.Sync() },
		func() error { _, err := f.WriteAt(bytes.Repeat([]byte("m"), page), 0); return err },
		func() error { return f.Sync() },
	} {
		if err == nil {
			err = next()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func newTestDisk(t *testing.T) *disk {
	t.Helper()
	d := must.Get(newDisk(filepath.Join(t.TempDir(), "real"), filepath.Join(t.TempDir(), "seen")))(t)
	t.Cleanup(func() { require.NoError(t, d.close()) })
	if d.missing != nil {
		skip(t, d.missing)
	}
	return d
}

// write starts the writer on the disk.
func write(t *testing.T, d *disk) (cmd *exec.Cmd, said *bytes.Buffer) {
	t.Helper()
	exe := must.Get(os.Executable())(t)
	cmd, said = exec.Command(exe), &bytes.Buffer{}
	cmd.Env = append(os.Environ(), asWriter+"="+filepath.Join(d.seen, "f"))
	cmd.Stderr = said
	require.NoError(t, cmd.Start())
	return cmd, said
}

func TestDisk_shows_the_steps_of_a_commit_in_order(t *testing.T) {
	d := newTestDisk(t)
	var mu sync.Mutex
	var seen []string
	d.set(func(op diskOp, done bool) syscall.Errno {
		mu.Lock()
		defer mu.Unlock()
		if done {
			seen = append(seen, op.String())
		}
		return 0
	})
	cmd, said := write(t, d)
	require.NoError(t, cmd.Wait(), "%v", said)
	mu.Lock()
	defer mu.Unlock()
	steps := []string{opWrite.String(), opSync.String(), opMeta.String(), opSyncMeta.String()}
	if got := seen[max(0, len(seen)-4):]; !slices.Equal(got, steps) || seen[0] != opOther.String() {
		t.Errorf("seen %q, want changes of the file and then %q", seen, steps)
	}
	assert.EqualValues(t, 1, d.commits.Load(), "commits were counted, want 1")
	data, err := os.ReadFile(filepath.Join(d.real, "f"))
	if page := os.Getpagesize(); err != nil || len(data) != 4*page || data[0] != 'm' || data[3*page] != 'p' {
		t.Errorf("the file is not as it was written: %d bytes, %v", len(data), err)
	}
}

func TestDisk_fails_operations_with_the_errno_of_its_rule(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EROFS} {
		for _, at := range []diskOp{opOther, opWrite, opSync, opMeta, opSyncMeta} {
			t.Run(fmt.Sprint(at, ": ", errno), func(t *testing.T) {
				d := newTestDisk(t)
				d.set(func(op diskOp, done bool) syscall.Errno {
					if op == at && !done {
						return errno
					}
					return 0
				})
				cmd, said := write(t, d)
				if err := cmd.Wait(); err == nil || !strings.Contains(said.String(), errno.Error()) {
					t.Errorf("the writer ended with %v and said %q", err, said)
				}
				assert.True(t, d.refused.Load() != 0 && d.commits.Load() == 0,
					"%d operations were refused, and %d commits completed", d.refused.Load(), d.commits.Load())
			})
		}
	}
}

// A process that was killed leaves a mount that no process answers for; the next one gets rid of it, and of a directory
// without one.
func TestRemove_takes_away_what_a_killed_process_has_left(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "world")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "disk"), 0o755))
	require.NoError(t, Remove(dir))
	require.NoError(t, Remove(dir))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asMounter+"="+dir)
	out := must.Get(cmd.StdoutPipe())(t)
	require.NoError(t, cmd.Start())
	said := make([]byte, 256)
	n, _ := out.Read(said)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	if why, missing := strings.CutPrefix(string(said[:n]), "missing: "); missing {
		t.Skipf("NOT RUN: needs a file system in user space: %s", why)
	}
	if err := os.RemoveAll(dir); !errors.Is(err, syscall.ENOTCONN) && !errors.Is(err, syscall.EBUSY) {
		t.Fatalf("without more the directory is removed: %v; the test has nothing to show", err)
	}
	require.NoError(t, Remove(dir))
	assert.ErrorIs(t, must.Err(os.Stat(dir)), os.ErrNotExist, "it is still")
}

// mounter mounts a world's disk, says so, and waits to be killed.
func mounter() {
	dir := os.Getenv(asMounter)
	d, err := newDisk(filepath.Join(dir, "disk"), filepath.Join(dir, seenName))
	if err == nil {
		err = d.missing
	}
	if err != nil {
		_, _ = fmt.Fprint(os.Stdout, "missing: ", err)
		os.Exit(0)
	}
	_, _ = fmt.Fprint(os.Stdout, "mounted")
	select {}
}

// A process that is killed at a step does nothing after it.
func TestDisk_stops_a_killed_process_at_the_step(t *testing.T) {
	page := os.Getpagesize()
	for _, c := range []struct {
		op          diskOp
		done        bool
		pages, meta bool // are in the file afterwards
	}{
		{opWrite, false, false, false},
		{opWrite, true, true, false},
		{opSync, false, true, false},
		{opSync, true, true, false},
		{opMeta, false, true, false},
		{opMeta, true, true, true},
		{opSyncMeta, false, true, true},
		{opSyncMeta, true, true, true},
	} {
		t.Run(fmt.Sprint(c.op, c.done), func(t *testing.T) {
			d := newTestDisk(t)
			s := newStep(c.op, c.done, 0)
			defer s.pass()
			d.set(s.rule)
			cmd, said := write(t, d)
			require.NoError(t, poll(t.Context(), patience, "the step", s.isReached))
			require.NoError(t, cmd.Process.Kill())
			s.pass()
			err := cmd.Wait()
			assert.True(t, err != nil && said.Len() <= 0, "the writer was not killed: %v, %s", err, said)
			data := must.Get(os.ReadFile(filepath.Join(d.real, "f")))(t)
			if pages, meta := data[3*page] == 'p', data[0] == 'm'; pages != c.pages || meta != c.meta {
				t.Errorf("pages written: %v, meta page: %v; want %v, %v", pages, meta, c.pages, c.meta)
			}
		})
	}
}

// skip skips what this machine cannot do. Whether it lets us mount is not ours to decide; where there is the device and
// the user who may use it, CI has to.
func skip(t *testing.T, why error) {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err == nil && os.Geteuid() == 0 && os.Getenv("CI") != "" &&
		!errors.Is(why, syscall.EPERM) {
		t.Fatal(why)
	}
	t.Skipf("NOT RUN: needs a file system in user space: %v", why)
}
