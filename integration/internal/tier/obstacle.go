// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"os"
	"testing"
)

// Possible skips the test where there is an obstacle to what it needs, and fails it if the environment variable CI is
// set. With CI it is skipped nevertheless where the environment variable says why what it needs cannot be there.
func Possible(t testing.TB, what, variable string, obstacle func() error) {
	t.Helper()
	if skip, reason := verdict(os.Getenv, variable, obstacle); skip {
		t.Skipf("NOT RUN: needs %s: %s", what, reason)
	} else if reason != "" {
		t.Fatalf("needs %s, and %s does not say why there is none: %s", what, variable, reason)
	}
}

// verdict returns why a test cannot run, nothing if it can, and whether that is no failure.
func verdict(getenv func(string) string, variable string, obstacle func() error) (skip bool, reason string) {
	if reason := getenv(variable); reason != "" {
		return true, reason
	}
	if err := obstacle(); err != nil {
		return getenv("CI") == "", err.Error()
	}
	return false, ""
}
