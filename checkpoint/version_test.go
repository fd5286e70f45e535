// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNewer(t *testing.T) {
	live, gone := Row{UID: "u", ResourceVersion: "10"}, Row{UID: "u", ResourceVersion: "10", Deleted: true}
	old, oldGone := live, gone
	old.Superseded, oldGone.Superseded = true, true
	for _, c := range []struct {
		name    string
		row     Row
		rv      string
		deleted bool
		want    bool
	}{
		{"a greater version", live, "11", false, true},
		{"a greater version has more digits", Row{ResourceVersion: "9"}, "10", false, true},
		{"the same version", live, "10", false, false},
		{"an older version", live, "9", false, false},
		{"a later deletion", live, "11", true, true},
		{"an object found missing is deleted at its last version", live, "10", true, true},
		{"an older deletion", live, "9", true, false},
		{"a recreation after a tombstone", gone, "11", false, true},
		{"the state that the tombstone buried", gone, "10", false, false},
		{"a state before the tombstone", gone, "9", false, false},
		{"the same deletion again", gone, "10", true, false},
		{"a later deletion of what is gone", gone, "11", true, true},
		{"without numbers, the same", Row{ResourceVersion: "b"}, "b", false, false},
		{"without numbers, the same deletion", Row{ResourceVersion: "b", Deleted: true}, "b", true, false},
		{"without numbers, deleted at the same version", Row{ResourceVersion: "b"}, "b", true, true},
		{"without numbers, another", Row{ResourceVersion: "b"}, "a", false, true},
		{"a number after something else", Row{ResourceVersion: "b"}, "1", false, true},
		{"a row without a version knows nothing", Row{}, "1", false, true},
		{"another history, a greater version", old, "11", false, true},
		{"another history, the same version", old, "10", false, true},
		{"another history, an older version", old, "1", false, true},
		{"another history, an older deletion", old, "1", true, true},
		{"another history, the same deletion", old, "10", true, true},
		{"another history, a recreation", oldGone, "1", false, true},
		{"another history, gone at the same version", oldGone, "10", false, true},
		{"another history, gone once more", oldGone, "1", true, false},
		{"another history, gone once more, later", oldGone, "11", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.want, Newer(c.row, c.rv, c.deleted), "Newer(%+v, %q, %v)", c.row, c.rv, c.deleted)
		})
	}
}
