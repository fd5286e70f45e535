// SPDX-License-Identifier: Apache-2.0

package source

import "strconv"

// Number returns a version as a number. Not all are, and only API servers that keep objects in etcd count revisions.
func Number(version string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(version, 10, 64)
	return n, err == nil && version[0] != '0'
}

// Later returns b if it is a later version than a, else a.
func Later(a, b string) string {
	m, isNumber := Number(a)
	if n, ok := Number(b); ok && isNumber && n > m {
		return b
	}
	return a
}
