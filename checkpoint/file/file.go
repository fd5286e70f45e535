// SPDX-License-Identifier: Apache-2.0

// Package file keeps a checkpoint in one file on a local disk.
//
// A commit is on the disk when it returns. A crash at any moment leaves the file as it was after the last commit that
// returned, or after the one that was under way. The file is locked while a [Store] is open; a network file system
// without working locks is no place for it.
//
// The structure of the file is checked when it is opened, and its contents when they are loaded. A damaged file is
// never repaired, changed or removed.
package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

// Store is an open checkpoint file. It is a [checkpoint.Store]; all methods may be called concurrently.
type Store struct {
	path string
	want checkpoint.Identity

	mu   sync.Mutex
	db   *bolt.DB
	file *os.File
	// broken is why the store must not be used any more.
	broken error
}

var _ checkpoint.Store = (*Store)(nil)

var errClosed = errors.New("the store is closed")

// BusyError says that another process has the file open.
type BusyError struct{ Path string }

// Error implements error.
func (e *BusyError) Error() string {
	return fmt.Sprintf("checkpoint %s is in use by another kube-eventbridge: stop that one, or give this one another path",
		e.Path)
}

// Open opens the checkpoint at path, or creates it with all its parent directories. Only the user who runs the process
// may read it: a file that others may read as well is narrowed to that.
//
// The error is a [*BusyError] when another process uses the file, a [*checkpoint.ForeignError] when it belongs to
// another identity than want, a [*checkpoint.FormatError] or a [*checkpoint.DamagedError] when it cannot be read.
func Open(path string, want checkpoint.Identity) (*Store, error) {
	created, err := prepare(path)
	if err != nil {
		return nil, fmt.Errorf("open checkpoint %s: %w", path, err)
	}
	s := &Store{path: path, want: want}
	if err := s.open(false); err != nil {
		return nil, err
	}
	err = s.guard(func() error { return s.db.View(s.admit) })
	if err == nil {
		err = syncDirs(created)
	}
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// Inspect returns what the checkpoint at path holds, whoever it belongs to, and leaves it as it is.
func Inspect(ctx context.Context, path string) (*checkpoint.State, error) {
	s := &Store{path: path}
	if err := s.open(true); err != nil {
		return nil, err
	}
	state, err := s.Load(ctx)
	return state, errors.Join(err, s.Close())
}

// InUse reports whether another process has the checkpoint at path open. To find out it holds the file for a moment, so
// that a process which opens it just then may be told that it is in use.
func InUse(path string) (bool, error) {
	s := &Store{path: path}
	err := s.open(true)
	var busy *BusyError
	if errors.As(err, &busy) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, s.Close()
}

// Load implements [checkpoint.Store].
func (s *Store) Load(ctx context.Context) (*checkpoint.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var state *checkpoint.State
	err := s.use(ctx, func() error {
		return s.db.View(func(tx *bolt.Tx) (err error) {
			state, err = s.read(ctx, tx)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("load checkpoint: %w", err)
	}
	return state, nil
}

// Commit implements [checkpoint.Store]. After an error the batch may be committed again, alone or within a later one.
func (s *Store) Commit(ctx context.Context, b *checkpoint.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.Identity != s.want {
		return &checkpoint.ForeignError{Path: s.path, Has: s.want, Want: b.Identity}
	}
	err := s.use(ctx, func() error {
		return s.db.Update(func(tx *bolt.Tx) error { return write(ctx, tx, b) })
	})
	if err != nil {
		return fmt.Errorf("commit checkpoint %s: %w", s.path, err)
	}
	return nil
}

// Close releases the file. A store may be closed twice.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db == nil {
		return nil
	}
	db := s.db
	s.db = nil
	if s.broken != nil {
		// The database may have been left with its locks held, so that its Close would never return.
		return release(s.file)
	}
	s.broken = errClosed
	return db.Close()
}

// use runs fn, which uses the database, unless ctx has ended. The lock is held.
func (s *Store) use(ctx context.Context, fn func() error) error {
	if s.broken != nil {
		return s.broken
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.guard(fn)
}

// guard runs fn, and makes an error of a panic: what bbolt does when it meets a page that it did not write. Also
// the memory that the file is mapped to may be gone, when the disk is.
func (s *Store) guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if cause := recover(); cause != nil {
			err = s.damaged(fmt.Errorf("%v", cause))
			s.broken = err
		}
	}()
	return fn()
}

func (s *Store) open(readOnly bool) error {
	opts := &bolt.Options{
		// Tried once, not waited for.
		Timeout:      time.Millisecond,
		ReadOnly:     readOnly,
		FreelistType: bolt.FreelistMapType,
		NoStatistics: true,
		OpenFile: func(name string, flag int, mode os.FileMode) (f *os.File, err error) {
			s.file, err = os.OpenFile(name, flag, mode)
			return s.file, err
		},
	}
	err := s.guard(func() (err error) {
		s.db, err = bolt.Open(s.path, 0o600, opts)
		return err
	})
	if err == nil {
		if err = s.verify(); err != nil {
			_ = s.db.Close()
		}
	}
	if err != nil && s.file != nil {
		_ = release(s.file)
	}
	return s.openError(err)
}

func (s *Store) verify() error {
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	return verify(s.file, s.db.Info().PageSize, info.Size())
}

// openError tells a damaged file from one that could not be read or written.
func (s *Store) openError(err error) error {
	var damaged *checkpoint.DamagedError
	var path *fs.PathError
	var errno syscall.Errno
	switch {
	case err == nil:
		return nil
	case errors.As(err, &damaged):
		return err
	case errors.Is(err, bolterrors.ErrTimeout):
		return &BusyError{Path: s.path}
	case errors.As(err, &path), errors.As(err, &errno):
		return fmt.Errorf("open checkpoint %s: %w", s.path, err)
	default:
		return s.damaged(err)
	}
}

// prepare makes the parent directories and narrows an existing file. It returns the directories that have a new entry.
func prepare(path string) (changed []string, err error) {
	dir := filepath.Dir(path)
	info, err := os.Stat(path)
	if err == nil {
		return nil, narrow(path, info)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	changed = append(changed, dir)
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); err == nil || !errors.Is(err, fs.ErrNotExist) || d == filepath.Dir(d) {
			break
		}
		changed = append(changed, filepath.Dir(d))
	}
	return changed, os.MkdirAll(dir, 0o700)
}

// narrow takes the file from everyone but its owner. A volume may give a file of another user to the process's group;
// that file is used as it is, unless all users may read or write it.
func narrow(path string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return errors.New("not a regular file")
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	err := os.Chmod(path, 0o600)
	if err != nil && info.Mode().Perm()&0o007 == 0 {
		return nil
	}
	return err
}

// syncDirs makes new entries of directories survive a crash of the machine.
func syncDirs(dirs []string) error {
	for _, dir := range dirs {
		d, err := os.Open(dir)
		if err != nil {
			return err
		}
		err = d.Sync()
		_ = d.Close()
		if err != nil {
			return fmt.Errorf("sync directory: %w", err)
		}
	}
	return nil
}
