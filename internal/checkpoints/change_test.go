// SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
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
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q is not in %q", text, err)
		}
	}
}

func TestReset_forgets_all_but_the_history_and_the_log(t *testing.T) {
	before := state()
	c, err := Reset(before, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"nodes.v1", "pods.v1", "secrets.v1"}; !slices.Equal(c.Batch.Forget, want) {
		t.Errorf("forgets %v, want %v", c.Batch.Forget, want)
	}
	// An id with the history before would be one that the log has of something else.
	if want := map[string]checkpoint.Stream{"pods.v1": {History: 2}}; !maps.Equal(c.Batch.Streams, want) {
		t.Errorf("keeps %v, want %v", c.Batch.Streams, want)
	}
	if l := c.Batch.Log; l.ID != "l" || !maps.Equal(l.Marks, before.Log.Marks) || l.Losses != 1 || len(l.Trail) != 2 || len(l.Trail[0].Positions) != 0 {
		t.Errorf("the log is %+v", l)
	}
	if want := (Move{Stream: "pods.v1", From: "100", Objects: 1}); c.Moves[1] != want {
		t.Errorf("moves %+v, want %+v", c.Moves[1], want)
	}
	if !reflect.DeepEqual(before, state()) {
		t.Errorf("the state that it was given is now %+v", before)
	}
}

func TestReset_of_a_stream_leaves_the_others(t *testing.T) {
	c, err := Reset(state(), []string{"nodes.v1", "nodes.v1"})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.Batch.Forget, []string{"nodes.v1"}) || len(c.Batch.Streams) != 0 || len(c.Batch.Drop) != 0 {
		t.Errorf("the batch is %+v", c.Batch)
	}
	if want := map[string]string{"pods.v1": "60"}; !maps.Equal(c.Batch.Log.Trail[0].Positions, want) {
		t.Errorf("the trail is %+v", c.Batch.Log.Trail)
	}
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
