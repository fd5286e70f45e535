// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"fmt"
	"testing"
)

// Try is [Poll] for a check that returns an error while it does not hold.
func Try(t testing.TB, what string, check func() error) {
	t.Helper()
	Poll(t, what, func() (bool, string) {
		err := check()
		return err == nil, fmt.Sprint(err)
	})
}
