// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
)

// unavailable skips the test for the reason, and fails it where everything has to run.
func unavailable(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf("NOT RUN: "+format, args...)
}

// program finds a program, or skips the test.
func program(t *testing.T, name, advice string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		unavailable(t, "%v; %s", err, advice)
	}
	return path
}

// installation is what a client needs, in a directory of the cache whose name tells what it is made of.
type installation struct {
	name   string
	inputs []string // files and directories, copied to where make works
	make   func(ctx context.Context, dir string) error
}

// installed returns the directory of an installation. The first that asks makes it, other processes wait; without the network, later, it is there.
func (i installation) installed(t *testing.T) string {
	t.Helper()
	cache, err := controlplane.CacheDir()
	must(t, err)
	dir := filepath.Join(cache, "interop", i.name+"-"+i.sum(t))
	exists := func() bool { _, err := os.Stat(dir); return err == nil }
	if exists() {
		return dir
	}
	must(t, os.MkdirAll(filepath.Dir(dir), 0o755))
	unlock, err := lock(t.Context(), dir+".lock")
	must(t, err)
	defer unlock()
	if exists() {
		return dir
	}
	began := time.Now()
	if err := i.into(t.Context(), dir); err != nil {
		unavailable(t, "install what the test of %s needs: %v", i.name, err)
	}
	t.Logf("installed %s in %s", i.name, time.Since(began).Round(time.Second))
	return dir
}

// sum stands for the inputs' names and contents.
func (i installation) sum(t *testing.T) string {
	t.Helper()
	h := sha256.New()
	for _, input := range i.inputs {
		must(t, filepath.WalkDir(input, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			_, _ = fmt.Fprintf(h, "%s %d %s", path, len(b), b) // a hash takes everything
			return err
		}))
	}
	return hex.EncodeToString(h.Sum(nil)[:4])
}

// into makes dir, whole or not at all.
func (i installation) into(ctx context.Context, dir string) error {
	tmp := fmt.Sprintf("%s.%d", dir, os.Getpid())
	defer os.RemoveAll(tmp) //nolint:errcheck // it is gone when all went well
	for _, input := range i.inputs {
		if err := copyTo(filepath.Join(tmp, filepath.Base(input)), input); err != nil {
			return err
		}
	}
	if err := i.make(ctx, tmp); err != nil {
		return err
	}
	return os.Rename(tmp, dir)
}

// copyTo copies a file, or what is in a directory.
func copyTo(to, from string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.CopyFS(to, os.DirFS(from))
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}

// lock holds other processes off. The lock ends with the process, however that ends.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(err, f.Close())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), f.Close())
		}
	}
}

// command runs a program in dir to its end; an error has the end of what it printed.
func command(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.WaitDelay = dir, 10*time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, bytes.TrimSpace(out[max(0, len(out)-4096):]))
	}
	return nil
}
