// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"
)

func TestWatches_are_shared_over_what_their_members_have_in_common(t *testing.T) {
	for name, c := range map[string]struct {
		members map[string]int
		narrow  time.Duration // how long ago
		apart   bool
		scope   string
		shared  bool
	}{
		"alone":                                {map[string]int{"a": 1}, 0, false, "a", false},
		"two of a namespace":                   {map[string]int{"a": 2}, 0, false, "a", true},
		"two of a namespace, apart":            {map[string]int{"a": 2}, 0, true, "a", false},
		"of two namespaces":                    {map[string]int{"a": 1, "b": 1}, 0, false, "", true},
		"of two namespaces, apart":             {map[string]int{"a": 1, "b": 1}, 0, true, "", false},
		"all and one":                          {map[string]int{"": 1, "a": 1}, 0, false, "", true},
		"refused just now":                     {map[string]int{"a": 2, "b": 1}, time.Minute, false, "a", true},
		"refused just now, apart":              {map[string]int{"a": 2, "b": 1}, time.Minute, true, "a", false},
		"refused just now, the one of another": {map[string]int{"a": 1, "b": 2}, time.Minute, false, "a", false},
		"refused long ago":                     {map[string]int{"a": 1, "b": 1}, 2 * wideAgainAfter, false, "", true},
	} {
		g := &group{members: c.members, apart: c.apart}
		for _, n := range c.members {
			g.size.Add(int32(n))
		}
		if c.narrow > 0 {
			g.narrow = time.Now().Add(-c.narrow)
		}
		scope, shared := g.scope("a")
		assert.True(t, scope == c.scope && shared == c.shared, "%s: over %q, shared %v", name, scope, shared)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
