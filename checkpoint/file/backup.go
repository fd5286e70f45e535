// SPDX-License-Identifier: Apache-2.0

package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
)

// Backup makes a copy of what was committed last at path, where nothing may be yet. When it returns nil the copy is on
// the disk, and a store can be opened on it; else nothing is there.
func (s *Store) Backup(path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return fmt.Errorf("back up checkpoint %s: %w", s.path, s.broken)
	}
	err := s.guard(func() error { return s.db.View(func(tx *bolt.Tx) error { return writeBackup(tx, path) }) })
	if err != nil {
		return fmt.Errorf("back up checkpoint %s: %w", s.path, err)
	}
	return nil
}

func writeBackup(tx *bolt.Tx, path string) error {
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = tx.WriteTo(out)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err == nil {
		err = syncDirs([]string{filepath.Dir(path)})
	}
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}
