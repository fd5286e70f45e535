// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
)

// SnapshotRevision returns the revision at which a snapshot of etcd was made, as a restored etcd has it before versions are bumped.
func SnapshotRevision(path string) (revision uint64, err error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: 10 * time.Second})
	if err != nil {
		return 0, fmt.Errorf("open snapshot: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.View(func(tx *bbolt.Tx) error {
		keys, meta := tx.Bucket([]byte("key")), tx.Bucket([]byte("meta"))
		if keys == nil || meta == nil {
			return fmt.Errorf("%s is no snapshot of etcd", path)
		}
		// Keys are revisions. The newest one may have been compacted away, if it was a deletion.
		last, _ := keys.Cursor().Last()
		for _, key := range [][]byte{last, meta.Get([]byte("finishedCompactRev"))} {
			if len(key) >= 8 {
				revision = max(revision, binary.BigEndian.Uint64(key))
			}
		}
		return nil
	})
	return revision, err
}
