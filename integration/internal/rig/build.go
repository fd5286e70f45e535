// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/once"
)

// ProgramVariable is the environment variable that names a bridge that was built before. [Program] returns it then.
const ProgramVariable = "KUBE_EVENTBRIDGE_BIN"

// Build says how the bridge is built from the tree. The zero value is the release's program, as make build makes it.
type Build struct {
	// Version and Commit are what the program says of itself; if empty, what git says of the tree.
	Version, Commit string
	// OS and Arch are what it runs on; if empty, this machine.
	OS, Arch string
	// Race builds it with the race detector, which needs a C compiler.
	Race bool
	// Replace has the contents of files that are taken for those of the tree, by path from the tree's root.
	// A file that the tree does not have is added.
	Replace map[string]string
}

// Program returns the path of the release's program, built from the tree as it is now; see [Build.Program].
func Program(ctx context.Context, log io.Writer) (string, error) {
	if path := os.Getenv(ProgramVariable); path != "" {
		if info, err := os.Stat(path); err != nil || info.Mode()&0o111 == 0 {
			return "", errors.Join(fmt.Errorf("%s: %s is not a program", ProgramVariable, path), err)
		}
		return filepath.Abs(path)
	}
	return Build{}.Program(ctx, log)
}

// ProgramForTest is [Program] for a test.
func ProgramForTest(t testing.TB) string {
	t.Helper()
	path, err := Program(t.Context(), os.Stderr)
	Must(t, err)
	return path
}

// Changed returns a build in which text that a file has once is replaced. The file is a path from the tree's root.
func Changed(file, from, to string) (Build, error) {
	root, err := controlplane.Root()
	if err != nil {
		return Build{}, err
	}
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return Build{}, err
	}
	if n := strings.Count(string(text), from); n != 1 {
		return Build{}, fmt.Errorf("change the bridge: %s has %q %d times, want it once", file, from, n)
	}
	return Build{Replace: map[string]string{file: strings.Replace(string(text), from, to, 1)}}, nil
}

// Program returns the path of the program. It is built once for the same sources and flags, also if several processes
// ask at the same time, and kept in the directory bridge of the cache ([controlplane.CacheDir]). Progress goes to log
// as lines of text, to no one if log is nil. Programs that have not been asked for in a day make room for others.
func (b Build) Program(ctx context.Context, log io.Writer) (string, error) {
	root, err := controlplane.Root()
	if err != nil {
		return "", err
	}
	cache, err := controlplane.CacheDir()
	if err != nil {
		return "", err
	}
	b.complete(ctx, root)
	key, err := b.key(root)
	if err != nil {
		return "", fmt.Errorf("build the bridge: %w", err)
	}
	all := filepath.Join(cache, "bridge")
	dir := filepath.Join(all, key)
	path := filepath.Join(dir, "kube-eventbridge")
	say := func(format string, args ...any) {
		if log != nil {
			_, _ = fmt.Fprintf(log, format+"\n", args...) // progress that cannot be written is no reason to stop
		}
	}
	err = once.Path(ctx, path, say, func(tmp string) error {
		prune(all)
		began := time.Now()
		if err := b.make(ctx, root, tmp); err != nil {
			return err
		}
		say("built the bridge in %s", time.Since(began).Round(time.Second/10))
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("build the bridge: %w", err)
	}
	now := time.Now()
	return path, os.Chtimes(dir, now, now)
}

// complete sets what was left out.
func (b *Build) complete(ctx context.Context, root string) {
	git := func(args ...string) string {
		out, err := exec.CommandContext(ctx, "git", append([]string{"-C", root, "-c", "safe.directory=*"},
			args...)...).Output()
		if err != nil {
			return "unknown" // a tree without git is built as well
		}
		return strings.TrimSpace(string(out))
	}
	if b.Version == "" {
		b.Version = git("describe", "--tags", "--always", "--dirty")
	}
	if b.Commit == "" {
		b.Commit = git("rev-parse", "HEAD")
	}
	if b.OS == "" {
		b.OS = runtime.GOOS
	}
	if b.Arch == "" {
		b.Arch = runtime.GOARCH
	}
}

// flags are those of go build.
func (b *Build) flags() []string {
	flags := []string{
		"-trimpath", "-buildvcs=false", "-ldflags",
		"-s -w -X main.version=" + b.Version + " -X main.commit=" + b.Commit,
	}
	if b.Race {
		flags = append(flags, "-race")
	}
	return flags
}

// key is the same for the same program.
func (b *Build) key(root string) (string, error) {
	h := sha256.New()
	_, _ = fmt.Fprintln(h, runtime.Version(), os.Getenv("GOFLAGS"), b.OS, b.Arch, b.flags()) // a hash takes everything
	if err := json.NewEncoder(h).Encode(b.Replace); err != nil {
		return "", err
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			apart := []string{"integration", "docs", "deploy", "bin", "dist", "testdata"}
			if path != root && (strings.HasPrefix(name, ".") || slices.Contains(apart, name)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		return add(h, path)
	})
	return hex.EncodeToString(h.Sum(nil)[:8]), err
}

// add hashes a file with its name.
func add(h hash.Hash, path string) error {
	text, err := os.ReadFile(path)
	_, _ = fmt.Fprintln(h, path, len(text))
	_, _ = h.Write(text)
	return err
}

// make builds the program, as the file path.
func (b *Build) make(ctx context.Context, root, path string) error {
	args := append([]string{"build"}, b.flags()...)
	if len(b.Replace) > 0 {
		dir, err := os.MkdirTemp("", "kube-eventbridge-overlay-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
		overlay, err := b.overlay(root, dir)
		if err != nil {
			return err
		}
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "-o", path, "./cmd/kube-eventbridge")...)
	cgo := "CGO_ENABLED=0"
	if b.Race {
		cgo = "CGO_ENABLED=1"
	}
	cmd.Dir, cmd.Env = root, append(os.Environ(), cgo, "GOOS="+b.OS, "GOARCH="+b.Arch)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // go removes its own temporary files then
	cmd.WaitDelay = 10 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", errors.Join(context.Cause(ctx), err), bytes.TrimSpace(out))
	}
	return nil
}

// overlay writes the files that the compiler takes for others, and returns the path of their list.
func (b *Build) overlay(root, dir string) (string, error) {
	replace := map[string]string{}
	for file, text := range b.Replace {
		name := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, file)] = name
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, list, 0o600)
}

// prune removes the programs that have not been asked for in a day. What cannot be removed is left.
func prune(all string) {
	entries, _ := os.ReadDir(all)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.IsDir() && time.Since(info.ModTime()) > 24*time.Hour {
			_ = os.RemoveAll(filepath.Join(all, e.Name()))
		}
	}
}
