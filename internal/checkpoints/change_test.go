// SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bytes"
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/file"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/storetest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
)

var audit = checkpoint.Identity{ClusterUID: "5f7d2a30", Cluster: "prod", Pipeline: "audit"}

// state has a stream at 100, one at 50, and one whose list has yet to come.
func state() *checkpoint.State {
	return &checkpoint.State{
		Identity: audit,
		Log: checkpoint.Log{
			ID: "l", Marks: map[int32]uint64{0: 7, 1: 9}, Ends: map[int32]uint64{0: 7},
			IDs: map[int32]string{0: "u.7.99.0"}, Given: 8, Resyncs: 1_764_000_000, Term: 2,
		},
		Streams: map[string]checkpoint.Stream{
			"pods.v1":    {Position: "100", Fingerprint: "f", Epoch: 7, Since: 6},
			"nodes.v1":   {Position: "50", Fingerprint: "f", Epoch: 8},
			"secrets.v1": {},
		},
		Rows: map[string]map[string]checkpoint.Row{
			"pods.v1": {
				"a/b": {UID: "u", ResourceVersion: "99", Epoch: 7, Version: 99},
				"a/c": {UID: "v", ResourceVersion: "98", Epoch: 6, Version: 98, Deleted: true},
			},
			"nodes.v1": {"n": {UID: "w", ResourceVersion: "12", Epoch: 8, Version: 12}},
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

// A number that was given out is in the log, and must not be given out again.
func TestReset_forgets_all_but_what_is_known_of_the_log(t *testing.T) {
	before := state()
	c := must.Get(Reset(before, nil))(t)
	assert.Equal(t, []string{"nodes.v1", "pods.v1", "secrets.v1"}, c.Batch.Forget, "forgets")
	assert.Equal(t, (Move{Stream: "pods.v1", From: "100", Objects: 1}), c.Moves[1], "moves")
	assert.Equal(t, state(), before, "the state that it was given is now")
	after := storetest.After(before, c.Batch)
	assert.Equal(t, state().Log, after.Log)
	assert.Empty(t, after.Streams)
	assert.Empty(t, after.Rows)
}

func TestReset_of_a_stream_leaves_the_others(t *testing.T) {
	c, err := Reset(state(), []string{"nodes.v1", "nodes.v1"})
	require.NoError(t, err)
	want := state()
	delete(want.Streams, "nodes.v1")
	delete(want.Rows, "nodes.v1")
	assert.Equal(t, want, storetest.After(state(), c.Batch))
	_, err = Reset(state(), []string{"pods"})
	wanted(t, err, `no stream "pods"; it has nodes.v1, pods.v1, secrets.v1`)
}

func TestRewind_moves_positions_back_and_forgets_nothing(t *testing.T) {
	before, given := state(), state()
	stream := checkpoint.Stream{
		Position: "100", Fingerprint: "f", Epoch: 7, ResyncDue: true, Replay: checkpoint.Replay{To: "103", Number: 4},
		Refused: []checkpoint.Refused{{Key: "web/a", Changes: 3, Version: "101"}},
	}
	before.Streams["pods.v1"] = stream
	stream.Floors = []sequence.Floor{{Namespace: "web", Position: 110}} // what it took over is published again, too
	given.Streams["pods.v1"] = stream
	now := before.Log.Resyncs + 100
	c := must.Get(Rewind(given, []string{"pods.v1"}, "80", now))(t)
	want := before
	stream.Position, stream.Floors = "80", nil
	stream.Refused = []checkpoint.Refused{{Key: "web/a"}}     // its changes are published again, each by itself
	stream.Replay = checkpoint.Replay{To: "103", Number: now} // the earlier one has not come to its end
	want.Streams["pods.v1"], want.Log.Resyncs = stream, now
	assert.Equal(t, want, storetest.After(given, c.Batch))
	assert.Empty(t, c.Batch.Put, "rows stay as they are")
}

// The ids of what is published again are ones that no earlier resync or rewind had, whatever the clock says.
func TestRewind_has_a_number_of_its_own(t *testing.T) {
	last := state().Log.Resyncs
	for now, want := range map[int64]int64{last + 7: last + 7, last: last + 1, 5: last + 1} {
		c := must.Get(Rewind(state(), []string{"pods.v1"}, "80", now))(t)
		assert.Equal(t, want, c.Batch.Log.Resyncs)
		assert.Equal(t, want, c.Batch.Streams["pods.v1"].Replay.Number)
	}
}

func TestRewind_reaches_what_was_published_ahead_of_the_position(t *testing.T) {
	given := state()
	given.Rows["pods.v1"] = map[string]checkpoint.Row{
		"a": {ResourceVersion: "104", Epoch: 7, Version: 104},
		"b": {ResourceVersion: "99", Epoch: 6, Version: 105, Deleted: true},
		"c": {ResourceVersion: "900", Epoch: 5, Version: 900}, // of before the first case
	}
	c := must.Get(Rewind(given, []string{"pods.v1"}, "80", 5))(t)
	assert.Equal(t, "105", c.Batch.Streams["pods.v1"].Replay.To, "it is %+v", c.Batch.Streams["pods.v1"])
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
	before.Streams["owes.v1"] = checkpoint.Stream{
		Position: "70", Owes: checkpoint.Owes{List: sequence.Relist, Version: "90", From: "70", Cause: "expired"},
	}
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
		{"owes.v1", "5", "something to do first: a list, at 90 or later, behind a gap from 70 (expired)"},
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
	assert.ErrorAs(t, f.Running(), &running, "want that a bridge runs")
	if got, err := bridge.Load(t.Context()); err != nil || !reflect.DeepEqual(got, state()) {
		t.Errorf("the bridge has %+v now, %v", got, err)
	}
}

func TestTopic_says_that_its_user_is_not_known(t *testing.T) {
	assert.Contains(t, (Topic{}).Caution(),
		"cannot be told now: before anything is changed, what it writes is waited for, for 6s at least.")
}

func TestFile_is_changed_after_a_copy_was_made(t *testing.T) {
	f, bridge := written(t)
	require.NoError(t, bridge.Close())
	require.NoError(t, f.Running(), "without a bridge that runs")
	first := must.Get(f.Change(t.Context(), resetPods))(t)
	kept := must.Get(file.Inspect(t.Context(), first))(t)
	assert.Equal(t, state(), kept, "the copy holds")
	now, err := file.Inspect(t.Context(), string(f))
	assert.True(t, err == nil && now.Streams["pods.v1"].Position == "" && len(now.Rows["pods.v1"]) == 0 &&
		len(now.Rows) == len(state().Rows)-1, "it holds %+v, %v", now, err)
	// Within the same second, perhaps.
	second, err := f.Change(t.Context(), func(s *checkpoint.State) (*Change, error) { return Reset(s, nil) })
	require.NoError(t, err)
	assert.NotEqual(t, first, second, "the second copy, the first")
	now, err = file.Inspect(t.Context(), string(f))
	assert.True(t, err == nil && len(now.Rows)+len(now.Streams) == 0, "it holds %+v, %v", now, err)
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
	r := Describe("audit", "file /s/audit.db", &Found{
		state(),
		time.Date(2026, 11, 22, 12, 0, 0, 7, time.FixedZone("", 3600)),
	})
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
Log:       known up to partition 0: 7, 1: 9

STREAM      POSITION  OBJECTS  OWES
nodes.v1    50        1        -
pods.v1     100       1        -
secrets.v1  -         0        a snapshot
`}, {&wide, `
Pipeline:   audit
Cluster:    prod (uid of kube-system 5f7d2a30)
Where:      file /s/audit.db
Saved:      2026-11-22T11:00:00Z
Log:        known up to partition 0: 7, 1: 9
Given out:  epochs up to 8, resyncs up to 1764000000, terms up to 2

STREAM      POSITION  OBJECTS  DELETIONS  EPOCH  SINCE  SELECTORS  OWES
nodes.v1    50        1        0          8      -      f          -
pods.v1     100       1        1          7      6      f          -
secrets.v1  -         0        0          -      -      -          a snapshot
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
	all := checkpoint.Stream{
		Owes:      checkpoint.Owes{List: sequence.Relist, From: "3", Version: "9", Cause: "expired", Message: "too old"},
		Announced: "gap.1", Unannounced: checkpoint.Snapshot{ResourceVersion: "8"},
		ResyncDue: true, Retiring: true, Replay: checkpoint.Replay{To: "99", Number: 1},
	}
	for _, c := range []struct {
		stream checkpoint.Stream
		want   []string
	}{
		{all, []string{
			"the deletion of all that it has, as it is not selected any more",
			"a list, at 9 or later, behind a gap from 3 (expired): too old",
			"the rest of the list that gap.1 has announced", "the word that the snapshot at 8 is complete",
			"a resync", "a replay up to 99",
			"the last event of objects of which the log has an older state last: 1",
		}},
		{checkpoint.Stream{}, []string{"a snapshot"}},
		{checkpoint.Stream{Owes: checkpoint.Owes{List: sequence.Reselect}}, []string{"a snapshot"}},
		{owing(checkpoint.Owes{List: sequence.Reselect, From: "5", Cause: "selection"}), []string{
			"a list of what is selected, behind a gap from 5 (selection)",
		}},
		{owing(checkpoint.Owes{List: sequence.Republish, From: "5", Cause: "restored"}), []string{
			"a list that publishes everything again, behind a gap from 5 (restored)",
		}},
		{owing(checkpoint.Owes{List: sequence.Repair, From: "0", Cause: "log-lost", Number: 7}), []string{
			"a list that publishes everything again, between resync markers, behind a gap from 0, number 7 (log-lost)",
		}},
	} {
		rows := map[string]checkpoint.Row{"a": {Behind: c.stream.Retiring}}
		got := describe("pods.v1", &c.stream, rows)
		assert.Equal(t, c.want, got.Owes, "it owes")
	}
}

func owing(o checkpoint.Owes) checkpoint.Stream { return checkpoint.Stream{Position: "5", Owes: o} }

func TestDescribe_has_the_newest_sequence(t *testing.T) {
	r := Describe("audit", "file a.db", &Found{State: state()})
	var newest []string
	for _, s := range r.Streams {
		newest = append(newest, s.Newest)
	}
	assert.Equal(t, []string{"0000000008.00000000000000000012.0", "0000000007.00000000000000000099.0", ""}, newest)
}

func TestFile_of_an_older_version_is_moved_away(t *testing.T) {
	f, bridge := written(t)
	var running *RunningError
	assert.ErrorAs(t, must.Err(f.Discard(t.Context())), &running)
	require.NoError(t, bridge.Close())
	assert.ErrorContains(t, must.Err(f.Discard(t.Context())), "this version can read it")
	db := must.Get(bolt.Open(string(f), 0o600, nil))(t)
	require.NoError(t, errors.Join(db.Update(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("meta")).Put([]byte("format"), []byte("1"))
	}), db.Close()))
	var old *checkpoint.FormatError
	_, err := f.Look(t.Context())
	require.ErrorAs(t, err, &old)
	assert.True(t, old.Old() && checkpoint.IsPermanent(err), "%v", err)
	backup := must.Get(f.Discard(t.Context()))(t)
	assert.FileExists(t, backup)
	found := must.Get(f.Look(t.Context()))(t)
	assert.Equal(t, (checkpoint.Identity{}), found.State.Identity, "it holds %+v", found)
}
