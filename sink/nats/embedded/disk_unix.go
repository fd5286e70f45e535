// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || freebsd

package embedded

import "syscall"

// free returns how many bytes are free on the disk of a directory; false where that cannot be told.
func free(dir string) (bytes int64, ok bool) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0, false
	}
	return int64(fs.Bavail) * int64(fs.Bsize), true //nolint:gosec,unconvert // both have other types elsewhere
}
