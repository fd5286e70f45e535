// SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReport_is_a_page_for_a_person(t *testing.T) {
	r := Describe("audit", "file /s/audit.db", &Found{state(), time.Date(2026, 11, 22, 12, 0, 0, 7, time.FixedZone("", 3600))})
	var short, wide bytes.Buffer
	require.NoError(t, r.Print(&short, false))
	require.NoError(t, r.Print(&wide, true))
	for _, page := range []struct {
		got  *bytes.Buffer
		want string
	}{{&short, `
Pipeline:  audit
Cluster:   prod (uid of kube-system 5f7d2a30)
Where:     file /s/audit.db
Saved:     2026-11-22T11:00:00Z
Log:       known up to partition 0: 7, 1: 9; seen to lose events once

STREAM      POSITION  OBJECTS  OWES
nodes.v1    50        1        -
pods.v1     100       1        -
secrets.v1  -         0        a snapshot
`}, {&wide, `
Pipeline:  audit
Cluster:   prod (uid of kube-system 5f7d2a30)
Where:     file /s/audit.db
Saved:     2026-11-22T11:00:00Z
Log:       known up to partition 0: 7, 1: 9; seen to lose events once

STREAM      POSITION  OBJECTS  DELETIONS  HISTORY  SELECTORS  OWES
nodes.v1    50        1        0          0        f          -
pods.v1     100       1        1          2        f          -
secrets.v1  -         0        0          0        -          a snapshot

LOG AT                SAFE POSITIONS
partition 0: 3, 1: 4  nodes.v1=40 pods.v1=60
partition 0: 7, 1: 9  nodes.v1=50 pods.v1=100
`}} {
		assert.Equal(t, page.want, "\n"+page.got.String())
	}
}

func TestPrintList_has_a_line_for_each_and_for_what_was_never_written(t *testing.T) {
	found := &Found{state(), time.Time{}}
	found.State.Log.Marks = nil
	var out bytes.Buffer
	require.NoError(t, PrintList(&out, []*Report{
		Describe("audit", "topic t", found), Describe("web", "file w.db", &Found{State: &checkpoint.State{}}),
	}))
	const want = `PIPELINE  CLUSTER  STREAMS  OBJECTS  SAVED    WHERE
audit     prod     3        2        unknown  topic t
web       -        -        -        never    file w.db
`
	assert.Equal(t, want, out.String(), "it is\n%s", &out)
}

func TestDescribe_says_all_that_a_stream_owes(t *testing.T) {
	s := describe("pods.v1", checkpoint.Stream{
		Gap: checkpoint.Gap{From: "3", Cause: "expired"}, Owed: checkpoint.Owed{Version: "9", Cause: "late"}, Announced: "gap.1",
		Unannounced: checkpoint.Snapshot{ResourceVersion: "8"}, Undone: "restored", Repair: "6", Leaving: "12",
	}, nil)
	const want = "the deletion of all that it has, as its namespace was not selected any more at 12; another history: restored; a list behind a gap from 3: expired; a list at 9 or later: late; the rest of the list that gap.1 has announced; " +
		"the word that the snapshot at 8 is complete; what the log has lost, up to 6"
	assert.Equal(t, want, strings.Join(s.Owes, "; "), "it owes")
}
