// SPDX-License-Identifier: Apache-2.0

// Package once makes files and directories of a cache that several processes share: each is made once, whole or not at
// all.
package once

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Path has something made at a path, unless it is there. The function gets a path in the same directory, where nothing
// is, and makes a file or a directory there. It may make directories below that path for files of its own. Path renames
// the result. If the function fails, Path removes what it left and returns its error.
//
// While one process makes it, others wait, which they announce with say. A lock ends with the process that holds it.
// Lock files stay: their names are that of the path, with a dot before and ".lock" behind.
func Path(ctx context.Context, path string, say func(format string, args ...any), do func(tmp string) error) error {
	exists := func() bool { _, err := os.Stat(path); return err == nil }
	if exists() {
		return nil
	}
	dir, name := filepath.Split(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make cache: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(dir, "."+name+".lock"), func() {
		say("another process makes %s, waiting for it …", name)
	})
	if err != nil {
		return fmt.Errorf("wait for another process that makes %s: %w", name, err)
	}
	defer unlock()
	if exists() {
		return nil
	}
	tmp := filepath.Join(dir, fmt.Sprintf(".%s.%d", name, os.Getpid()))
	defer os.RemoveAll(tmp) //nolint:errcheck // what is left there has another name
	if err := do(tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("make cache: %w", err)
	}
	return nil
}

// lock holds other processes off, and calls waiting if it has to wait for one.
func lock(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for first := true; ; first = false {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(err, f.Close())
		}
		if first {
			waiting()
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), f.Close())
		case <-time.After(100 * time.Millisecond):
		}
	}
}
