// SPDX-License-Identifier: Apache-2.0

package metric

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAll_are_told_apart_and_explained(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range All() {
		name := m.FullName()
		assert.False(t, seen[name], "%s is there twice", name)
		seen[name] = true
		assert.True(t, strings.HasSuffix(m.Help, "."), "%s: %q is no sentence", name, m.Help)
		assert.True(t, slices.IsSorted(m.Labels), "%s: labels %v are not sorted", name, m.Labels)
		assert.Equal(t, strings.HasSuffix(name, "_total"), (m.Type == Counter), "%s is a %s", name, m.Type)
	}
}

// What an object says, or is called, is in no label.
func TestLabels_have_few_values(t *testing.T) {
	bounded := []string{
		"code", "commit", "goversion", "host", "method", "op", "pipeline", "reason", "replica", "result", "stream",
		"verb", "version",
	}
	for _, m := range All() {
		for _, l := range m.Labels {
			assert.Contains(t, bounded, l,
				"%s has label %s: say why its values are bounded, and add it here", m.FullName(), l)
		}
	}
}

func TestNew_of_what_is_not_defined_panics(t *testing.T) {
	for name, make := range map[string]func(){
		"an unknown name": func() { NewCounter("nothing_total") },
		"another type":    func() { NewDesc("gaps_total") },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				assert.NotNil(t, recover(), "it is made")
			}()
			make()
		})
	}
}
