// SPDX-License-Identifier: Apache-2.0

package checkpoint

import "strconv"

// Number returns the number that a resourceVersion is; false where it is none, or is not written as numbers are.
func Number(version string) (uint64, bool) {
	if version == "" || version[0] == '0' || version[0] == '+' {
		return 0, false
	}
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0, false
	}
	return n, true
}
