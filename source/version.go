// SPDX-License-Identifier: Apache-2.0

package source

import "strconv"

// number returns a version as a number. Not all are, and only API servers that keep objects in etcd count revisions.
func number(version string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(version, 10, 64)
	return n, err == nil && version[0] != '0'
}

// later returns b if it is a later version than a, else a.
func later(a, b string) string {
	m, isNumber := number(a)
	if n, ok := number(b); ok && isNumber && n > m {
		return b
	}
	return a
}
