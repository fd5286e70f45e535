// SPDX-License-Identifier: Apache-2.0

package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

const (
	// peeks is how often a copy is tried that a commit came into.
	peeks    = 50
	peekWait = 20 * time.Millisecond
)

// errUnsteady says that each copy had a commit in it.
var errUnsteady = errors.New("it is written to all the time")

// Peek returns what the checkpoint at path holds and when that was committed, whoever it belongs to. It takes no lock:
// a process that has the file open, or is about to open it, is not disturbed. What it reads is a copy in the directory
// for temporary files, which it removes.
func Peek(ctx context.Context, path string) (state *checkpoint.State, saved time.Time, err error) {
	dir, err := os.MkdirTemp("", "kube-eventbridge-*")
	if err != nil {
		return nil, saved, fmt.Errorf("copy checkpoint %s: %w; set $TMPDIR to a directory that can be written", path, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := &Store{path: path}
	if saved, err = s.copyTo(ctx, dir+"/copy.db"); err != nil {
		return nil, saved, s.openError(err)
	}
	c := &Store{path: dir + "/copy.db"}
	if err := c.open(true); err != nil {
		return nil, saved, renamed(err, path)
	}
	state, err = c.Load(ctx)
	return state, saved, renamed(errors.Join(err, c.Close()), path)
}

// renamed makes an error about a copy one about the checkpoint.
func renamed(err error, path string) error {
	var damaged *checkpoint.DamagedError
	var format *checkpoint.FormatError
	switch {
	case errors.As(err, &damaged):
		return (&Store{path: path}).damaged(damaged.Err)
	case errors.As(err, &format):
		return &checkpoint.FormatError{Path: path, Format: format.Format}
	default:
		return err
	}
}

// copyTo copies the file as it is between two commits. A commit writes to pages that no earlier one uses, and last one
// of the two meta pages: while these stay as they are, so does everything that the last commit speaks of.
func (s *Store) copyTo(ctx context.Context, path string) (saved time.Time, err error) {
	in, err := os.Open(s.path)
	if err != nil {
		return saved, err
	}
	defer func() { _ = in.Close() }()
	for range peeks {
		before, err := metas(in)
		if err != nil {
			return saved, s.damaged(err)
		}
		info, err := in.Stat()
		if err != nil {
			return saved, err
		}
		if err := copyFile(in, path); err != nil {
			return saved, err
		}
		if after, err := metas(in); err == nil && after == before {
			return info.ModTime(), nil
		}
		if err := pause.For(ctx, peekWait); err != nil {
			return saved, err
		}
	}
	return saved, fmt.Errorf("copy checkpoint %s: %w", s.path, errUnsteady)
}

// metas returns both meta pages.
func metas(file io.ReaderAt) (both [2][metaSize]byte, err error) {
	if _, err := file.ReadAt(both[0][:], headerSize); err != nil {
		return both, fmt.Errorf("meta page: %w", err)
	}
	size := native.Uint32(both[0][8:])
	if native.Uint32(both[0][:]) != metaMagic || size < headerSize+metaSize {
		return both, errors.New("the first meta page is not valid")
	}
	if _, err := file.ReadAt(both[1][:], int64(size)+headerSize); err != nil {
		return both, fmt.Errorf("meta page: %w", err)
	}
	return both, nil
}

// copyFile makes a copy that only this user can read.
func copyFile(in *os.File, path string) error {
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return err
	}
	out, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
