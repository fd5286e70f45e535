// SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bytes"
	"errors"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/file"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

var audit = checkpoint.Identity{ClusterUID: "5f7d2a30", Cluster: "prod", Pipeline: "audit"}

// state has a stream at 100, one at 50, and one whose list has yet to come.
func state() *checkpoint.State {
	return &checkpoint.State{
		Identity: audit,
		Log: checkpoint.Log{ID: "l", Marks: map[int32]uint64{0: 7, 1: 9}, Losses: 1, Trail: []checkpoint.Waypoint{
			{Marks: map[int32]uint64{0: 3, 1: 4}, Positions: map[string]string{"pods.v1": "60", "nodes.v1": "40"}},
			{Marks: map[int32]uint64{0: 7, 1: 9}, Positions: map[string]string{"pods.v1": "100", "nodes.v1": "50"}},
		}},
		Streams: map[string]checkpoint.Stream{
			"pods.v1": {Position: "100", Fingerprint: "f", History: 2}, "nodes.v1": {Position: "50", Fingerprint: "f"}, "secrets.v1": {},
		},
		Rows: map[string]map[string]checkpoint.Row{
			"pods.v1":  {"a/b": {UID: "u", ResourceVersion: "99"}, "a/c": {UID: "v", ResourceVersion: "98", Deleted: true}},
			"nodes.v1": {"n": {UID: "w", ResourceVersion: "12"}},
		},
	}
}

// wanted fails unless err is about a choice, and has all of texts.
func wanted(t *testing.T, err error, texts ...string) {
	t.Helper()
	var choice *ChoiceError
	if !errors.As(err, &choice) {
		t.Errorf("error %v, want a ChoiceError", err)
		return
	}
	for _, text := range texts {
		assert.Contains(t, err.Error(), text, "not in %q", err)
	}
}

func TestReset_forgets_all_but_the_history_and_the_log(t *testing.T) {
	before := state()
	c := must.Get(Reset(before, nil))(t)
	assert.Equal(t, []string{"nodes.v1", "pods.v1", "secrets.v1"}, c.Batch.Forget, "forgets")
	// An id with the history before would be one that the log has of something else.
	assert.Equal(t, map[string]checkpoint.Stream{"pods.v1": {History: 2}}, c.Batch.Streams, "keeps")
	if l := c.Batch.Log; l.ID != "l" || !maps.Equal(l.Marks, before.Log.Marks) || l.Losses != 1 || len(l.Trail) != 2 || len(l.Trail[0].Positions) != 0 {
		t.Errorf("the log is %+v", l)
	}
	assert.Equal(t, (Move{Stream: "pods.v1", From: "100", Objects: 1}), c.Moves[1], "moves")
	assert.Equal(t, state(), before, "the state that it was given is now")
}

func TestReset_of_a_stream_leaves_the_others(t *testing.T) {
	c, err := Reset(state(), []string{"nodes.v1", "nodes.v1"})
	require.NoError(t, err)
	assert.True(t, slices.Equal(c.Batch.Forget, []string{"nodes.v1"}) && len(c.Batch.Streams) == 0 &&
		len(c.Batch.Drop) == 0, "the batch is %+v", c.Batch)
	assert.Equal(t, map[string]string{"pods.v1": "60"}, c.Batch.Log.Trail[0].Positions,
		"the trail is %+v", c.Batch.Log.Trail)
	_, err = Reset(state(), []string{"pods"})
	wanted(t, err, `no stream "pods"; it has nodes.v1, pods.v1, secrets.v1`)
}

func TestReset_keeps_that_a_history_is_over(t *testing.T) {
	before := state()
	before.Streams["nodes.v1"] = checkpoint.Stream{Position: "50", Undone: "restored", Alone: true}
	c, err := Reset(before, []string{"nodes.v1"})
	if want := (checkpoint.Stream{Undone: "restored", Alone: true}); err != nil || c.Batch.Streams["nodes.v1"] != want {
		t.Errorf("it is %+v, %v; want %+v", c.Batch.Streams["nodes.v1"], err, want)
	}
}

func TestRewind_moves_positions_back_and_forgets_nothing(t *testing.T) {
	before := state()
	before.Streams["pods.v1"] = checkpoint.Stream{Position: "100", Fingerprint: "f", History: 2, Replay: checkpoint.Replay{To: "103", Number: 4}}
	given := state()
	given.Streams["pods.v1"] = before.Streams["pods.v1"]
	c := must.Get(Rewind(given, []string{"pods.v1"}, "80", 5))(t)
	replay := checkpoint.Replay{To: "103", Number: 5} // what the earlier replay has not come to is behind that, too
	want := map[string]checkpoint.Stream{"pods.v1": {Position: "80", Fingerprint: "f", History: 2, Replay: replay}}
	assert.Equal(t, want, c.Batch.Streams, "streams")
	n := len(c.Batch.Forget) + len(c.Batch.Drop)
	assert.True(t, n <= 0 && len(c.Batch.Put) == 1, "it forgets %d things, and changes %+v", n, c.Batch.Put)
	for key, row := range before.Rows["pods.v1"] {
		if row.Again = true; c.Batch.Put["pods.v1"][key] != row {
			t.Errorf("%s becomes %+v, want %+v", key, c.Batch.Put["pods.v1"][key], row)
		}
	}
	for _, w := range c.Batch.Log.Trail {
		_, ok := w.Positions["pods.v1"]
		assert.False(t, ok, "a log that loses its end would go back to %+v", w)
	}
	assert.Equal(t, before, given, "the state that it was given is now")
}

func TestRewind_reaches_what_was_published_ahead_of_the_position(t *testing.T) {
	given := state()
	given.Rows["pods.v1"] = map[string]checkpoint.Row{
		"a": {ResourceVersion: "104"}, "b": {ResourceVersion: "99", Deleted: true}, "c": {ResourceVersion: "900", Superseded: true},
	}
	c := must.Get(Rewind(given, []string{"pods.v1"}, "80", 5))(t)
	assert.Equal(t, "104", c.Batch.Streams["pods.v1"].Replay.To, "it is %+v", c.Batch.Streams["pods.v1"])
}

// pods is what going back does to them.
func pods(to string) Move { return Move{"pods.v1", "100", to, 1} }

func TestRewind_of_all_leaves_alone_what_is_not_ahead(t *testing.T) {
	before := state()
	delete(before.Streams, "secrets.v1")
	for to, want := range map[string][]Move{
		"100": nil, "99": {pods("99")}, "50": {pods("50")},
		"7": {{"nodes.v1", "50", "7", 1}, pods("7")},
	} {
		c, err := Rewind(before, nil, to, 5)
		assert.True(t, err == nil && slices.Equal(c.Moves, want) && len(c.Batch.Streams) == len(want),
			"to %s: %+v, %v; want %+v", to, c, err, want)
	}
	_, err := Rewind(before, nil, "101", 5)
	wanted(t, err, "101 is ahead of where the log is complete: nodes.v1 is at 50, pods.v1 is at 100")
}

func TestRewind_refuses_what_it_cannot_do(t *testing.T) {
	before := state()
	before.Streams["owes.v1"] = checkpoint.Stream{Position: "70", Owed: checkpoint.Owed{Version: "90", Cause: "expired"}}
	before.Streams["text.v1"] = checkpoint.Stream{Position: "abc"}
	for _, c := range []struct {
		stream, to, text string
	}{
		{"pods.v1", "101", "101 is ahead of where the log is complete: pods.v1 is at 100; choose a version before that"},
		{"pods.v1", "", `"" is not a resourceVersion`},
		{"pods.v1", "0", `"0" is not a resourceVersion`},
		{"pods.v1", "007", `"007" is not a resourceVersion`},
		{"pods.v1", "-5", `"-5" is not a resourceVersion`},
		{"pods", "5", `no stream "pods"; it has nodes.v1, owes.v1, pods.v1`},
		{"secrets.v1", "5", "stream secrets.v1 cannot be rewound, as it has something to do first: a snapshot"},
		{"owes.v1", "5", "something to do first: a list at 90 or later: expired"},
		{"text.v1", "5", `its position "abc" is not a number`},
	} {
		_, err := Rewind(before, []string{c.stream}, c.to, 5)
		wanted(t, err, c.text)
	}
}

// written is a checkpoint in a file that has what state returns.
func written(t *testing.T) (f File, bridge *file.Store) {
	t.Helper()
	f = File(filepath.Join(t.TempDir(), "audit.db"))
	bridge = must.Get(file.Open(string(f), audit))(t)
	t.Cleanup(func() { _ = bridge.Close() })
	s := state()
	require.NoError(t,
		bridge.Commit(t.Context(), &checkpoint.Batch{Identity: audit, Log: &s.Log, Streams: s.Streams, Put: s.Rows}))
	return f, bridge
}

func resetPods(state *checkpoint.State) (*Change, error) { return Reset(state, []string{"pods.v1"}) }

func TestFile_of_a_running_bridge_is_shown_and_not_changed(t *testing.T) {
	f, bridge := written(t)
	found := must.Get(f.Look(t.Context()))(t)
	assert.Equal(t, state(), found.State, "it holds %+v", found)
	var running *RunningError
	assert.ErrorAs(t, must.Err(f.Change(t.Context(), resetPods)), &running, "want that a bridge runs")
	got := f.User()
	assert.True(t, strings.HasPrefix(got, "A kube-eventbridge runs with it"), "of its user it says %q", got)
	if got, err := bridge.Load(t.Context()); err != nil || !reflect.DeepEqual(got, state()) {
		t.Errorf("the bridge has %+v now, %v", got, err)
	}
}

func TestTopic_says_that_its_user_is_not_known(t *testing.T) {
	assert.Contains(t, (Topic{}).User(),
		"cannot be told now: before anything is changed its commits are waited for, for 5s.")
}

func TestFile_is_changed_after_a_copy_was_made(t *testing.T) {
	f, bridge := written(t)
	require.NoError(t, bridge.Close())
	assert.Empty(t, f.User(), "without a user")
	first := must.Get(f.Change(t.Context(), resetPods))(t)
	kept := must.Get(file.Inspect(t.Context(), first))(t)
	assert.Equal(t, state(), kept, "the copy holds")
	now, err := file.Inspect(t.Context(), string(f))
	assert.True(t, err == nil && now.Streams["pods.v1"].Position == "" && len(now.Rows["pods.v1"]) == 0 &&
		len(now.Rows) == len(state().Rows)-1, "it holds %+v, %v", now, err)
	second, err := f.Change(t.Context(), func(s *checkpoint.State) (*Change, error) { return Reset(s, nil) }) // within the same second, perhaps
	require.NoError(t, err)
	assert.NotEqual(t, first, second, "the second copy, the first")
	now, err = file.Inspect(t.Context(), string(f))
	assert.True(t, err == nil && len(now.Rows) == 0 && len(now.Streams) == 1, "it holds %+v, %v", now, err)
}

func TestFile_where_nothing_moves_gets_no_copy(t *testing.T) {
	f, bridge := written(t)
	require.NoError(t, bridge.Close())
	backup, err := f.Change(t.Context(), func(*checkpoint.State) (*Change, error) { return &Change{}, nil })
	all, _ := filepath.Glob(string(f) + "*")
	assert.True(t, err == nil && backup == "" && len(all) == 1, "backup %q, %v, %v", backup, err, all)
}

func TestFile_that_is_not_there_is_not_made(t *testing.T) {
	f := File(filepath.Join(t.TempDir(), "none.db"))
	found := must.Get(f.Look(t.Context()))(t)
	assert.Equal(t, (checkpoint.Identity{}), found.State.Identity, "it holds %+v", found)
	var unwritten *UnwrittenError
	_, err := f.Change(t.Context(), resetPods)
	assert.True(t, errors.As(err, &unwritten), "error %v, want that there is none", err)
	all, _ := filepath.Glob(filepath.Dir(string(f)) + "/*")
	assert.Empty(t, all, "there is %v now", all)
}

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
