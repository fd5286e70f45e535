// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"strconv"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

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

// later reports whether version a comes after b. Where they have no order the one that was shown last, a, does.
func later(a, b string) bool {
	if a == b {
		return false
	}
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || c > 0
}
