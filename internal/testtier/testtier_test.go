// SPDX-License-Identifier: Apache-2.0

package testtier

import "testing"

func TestRounds_depend_on_the_tier(t *testing.T) {
	for tier, want := range map[string]int{"core": 1, "all": 2, "": 2, "nightly": 3} {
		t.Setenv(Variable, tier)
		if got := Rounds(1, 2, 3); got != want {
			t.Errorf("%q: %d rounds, want %d", tier, got, want)
		}
	}
}
