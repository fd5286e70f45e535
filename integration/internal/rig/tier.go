// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
)

// The tiers that a test can be left to. One that calls nothing runs in all of them.
const (
	All     = testtier.All
	Nightly = testtier.Nightly
)

// Tier skips the test unless the tier that was asked for includes it; see package testtier, which packages use that
// this one imports.
func Tier(t testing.TB, needed testtier.Tier) {
	t.Helper()
	testtier.Needs(t, needed)
}

// Parallel is [Tier] for a test that runs beside others.
func Parallel(t *testing.T, needed testtier.Tier) {
	t.Helper()
	t.Parallel()
	testtier.Needs(t, needed)
}
