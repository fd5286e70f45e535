// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// known is a stream of which one object is known.
type known struct {
	row             checkpoint.Row
	exists, refused bool
}

func (k known) Safe() string                              { return "10" }
func (k known) Known(string) (checkpoint.Row, bool, bool) { return k.row, k.exists, k.refused }

func TestAudit_a_row_agrees_unless_what_exists_at_the_position_is_another(t *testing.T) {
	row := checkpoint.Row{UID: "u", ResourceVersion: "7"}
	gone := checkpoint.Row{UID: "u", ResourceVersion: "7", Deleted: true}
	is, older := &source.Ident{UID: "u", ResourceVersion: "7"}, &source.Ident{UID: "u", ResourceVersion: "5"}
	for name, c := range map[string]struct {
		known    known
		exists   *source.Ident
		position string
		want     bool
	}{
		"the same":                             {known{row: row, exists: true}, is, "10", true},
		"another version":                      {known{row: row, exists: true}, older, "10", false},
		"the row is newer than the position":   {known{row: row, exists: true}, older, "6", true},
		"refused":                              {known{row: row, exists: true, refused: true}, older, "10", true},
		"refused, and versions do not compare": {known{row: row, exists: true, refused: true}, older, "x", false},
		"not in the log":                       {known{}, is, "10", false},
		"not in the log, and gone":             {known{}, nil, "10", true},
		"deleted":                              {known{row: gone, exists: true}, is, "10", false},
		"deleted, and gone":                    {known{row: gone, exists: true}, nil, "10", true},
		"gone":                                 {known{row: row, exists: true}, nil, "10", false},
	} {
		a := Auditor{Stream: c.known}
		assert.Equal(t, c.want, a.Agrees("default/a", c.exists, 0, c.position), name)
	}
}

func TestAudit_times_are_the_same_for_all_processes_and_spread_over_streams(t *testing.T) {
	const every = 24 * time.Hour
	now := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	wait := Until(now, "a", every)
	require.True(t, wait > 0 && wait <= every, "the first audit is in %v", wait)
	later := Until(now.Add(time.Nanosecond), "a", every)
	assert.Equal(t, wait-time.Nanosecond, later, "another process audits at another time")
	assert.Equal(t, every, Until(now.Add(wait), "a", every), "two audits are not one interval apart")
	times := map[time.Duration]bool{}
	for _, name := range []string{"a", "b", "c", "d"} {
		times[Until(now, name, every).Truncate(time.Minute)] = true
	}
	assert.Len(t, times, 4, "streams are audited together")
}
