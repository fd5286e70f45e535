// SPDX-License-Identifier: Apache-2.0

package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

// Discard moves a checkpoint that an older version has written to another path, so that the next start makes a new
// one. The error is fs.ErrExist where something is at that path, and a [*BusyError] while another process uses the
// checkpoint. A checkpoint of this version's format is refused.
func Discard(path, to string) error {
	s := &Store{path: path}
	if err := s.open(true); err != nil {
		return err
	}
	err := s.guard(func() error { return s.db.View(s.outdated) })
	if err == nil {
		err = moveAside(path, to)
	}
	if err = errors.Join(err, s.Close()); err != nil {
		return fmt.Errorf("discard checkpoint %s: %w", path, err)
	}
	return nil
}

// outdated returns an error unless an older version has written the checkpoint.
func (s *Store) outdated(tx *bolt.Tx) error {
	_, err := s.identity(tx)
	var other *checkpoint.FormatError
	switch {
	case errors.As(err, &other) && other.Old():
		return nil
	case err == nil:
		return errors.New("this version can read it")
	default:
		return err
	}
}

// moveAside renames a file, and replaces nothing.
func moveAside(path, to string) error {
	if err := os.Link(path, to); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	return syncDirs([]string{filepath.Dir(path)})
}
