// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/tier"
)

// The tiers that a test can be left to. One that calls nothing runs in all of them.
const (
	All     = tier.All
	Nightly = tier.Nightly
)

// Tier skips the test unless the tier that was asked for includes it; see package tier, which packages use that this one
// imports.
func Tier(t testing.TB, needed tier.Tier) {
	t.Helper()
	tier.Needs(t, needed)
}

// Parallel is [Tier] for a test that runs beside others.
func Parallel(t *testing.T, needed tier.Tier) {
	t.Helper()
	t.Parallel()
	tier.Needs(t, needed)
}
