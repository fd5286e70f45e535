// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

// later reports whether version a comes after b. Where they have no order the one that was shown last, a, does.
func later(a, b string) bool {
	if a == b {
		return false
	}
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || c > 0
}

// After reports whether version a comes after b. Versions that are not numbers come after nothing.
func After(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}

// Numeric returns a version as a number; 0 where it is empty or no number.
func Numeric(version string) uint64 {
	n, _ := checkpoint.Number(version)
	return n
}
