// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/membership"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

var configMaps = source.Resource{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true}

// next returns an epoch that is greater than those of the tests.
func next() uint64 { return 100 }

// planOne returns what a stream takes over from others, of which nothing is left.
func planOne(t *testing.T, stored *checkpoint.State, a *membership.Assignment) checkpoint.Stream {
	t.Helper()
	m := Plan(stored, Handover{To: []*membership.Assignment{a}, From: a.From}, next)
	require.Len(t, m.Batch.Streams, 1)
	require.ElementsMatch(t, a.From, m.Batch.Forget)
	return m.Batch.Streams[a.Stream.Name()]
}

// What streams of several namespaces have, and owe, goes over to the one of all, under one number.
func TestPlan_takes_the_oldest_position_and_the_greatest_debt(t *testing.T) {
	to := planOne(t, &checkpoint.State{Streams: map[string]checkpoint.Stream{
		"configmaps.v1/a": {Position: "30", Epoch: 5, Since: 4},
		"configmaps.v1/b": {
			Epoch: 7, Since: 7, Owes: checkpoint.Owes{List: sequence.Republish, From: "20", Cause: "restored", Message: "m"},
		},
		"configmaps.v1/c": {Epoch: 8, Owes: checkpoint.Owes{List: sequence.Reselect}}, // it has nothing yet
	}}, &membership.Assignment{
		Stream: source.Stream{Resource: configMaps}, From: []string{"configmaps.v1/a", "configmaps.v1/b", "configmaps.v1/c"},
	})
	assert.Equal(t, next(), to.Epoch)
	assert.Equal(t, uint64(7), to.Since)
	assert.Empty(t, to.Position)
	assert.Equal(t, checkpoint.Owes{List: sequence.Republish, From: "20", Cause: "restored", Message: "m"}, to.Owes)
}

// A stream of all namespaces is taken back before it has listed. The log is as complete of each namespace as before.
func TestPlan_gives_a_namespace_its_own_position_back(t *testing.T) {
	positions := map[string]string{"configmaps.v1/bank": "1270", "configmaps.v1/shop": "1271"}
	for _, same := range []bool{false, true} {
		stored := &checkpoint.State{Streams: map[string]checkpoint.Stream{}}
		for name, position := range positions {
			stored.Streams[name] = checkpoint.Stream{Position: position, Epoch: 5, Namespaced: true}
		}
		all := source.Stream{Resource: configMaps}
		stored.Streams = map[string]checkpoint.Stream{all.Name(): planOne(t, stored, &membership.Assignment{
			Stream: all, From: []string{"configmaps.v1/bank", "configmaps.v1/shop"}, Same: same,
		})}
		for _, namespace := range []string{"bank", "shop"} {
			of := source.Stream{Resource: configMaps, Namespace: namespace}
			to := planOne(t, stored, &membership.Assignment{Stream: of, From: []string{all.Name()}, Same: same})
			assert.Equal(t, positions[of.Name()], to.Position)
			if !same {
				assert.Equal(t, positions[of.Name()], to.Owes.From, "a gap hides what %s has", of.Name())
			}
		}
	}
}

// A checkpoint was lost, and the streams that the log had go over to others before they have listed.
func TestPlan_says_that_the_checkpoint_was_lost(t *testing.T) {
	owes := checkpoint.Owes{List: sequence.Reselect, From: "20", Cause: "checkpoint-lost", Message: "m"}
	to := planOne(t, &checkpoint.State{
		Streams: map[string]checkpoint.Stream{"configmaps.v1/a": {Epoch: 5, Owes: owes}},
		Rows: map[string]map[string]checkpoint.Row{"configmaps.v1/a": {
			"a/x": {UID: "u1", ResourceVersion: "9", Epoch: 5, Version: 9},
		}},
	}, &membership.Assignment{Stream: source.Stream{Resource: configMaps}, From: []string{"configmaps.v1/a"}})
	assert.Equal(t, owes, to.Owes)
	assert.Equal(t, next(), to.Epoch)
}

// Streams of single namespaces owe lists of another selection, and become one of the same selection.
func TestPlan_knows_that_a_list_is_of_another_selection(t *testing.T) {
	owes := checkpoint.Owes{List: sequence.Republish, From: "10", Cause: string(source.CauseRestored)}
	for _, reselected := range []bool{false, true} {
		to := planOne(t, &checkpoint.State{Streams: map[string]checkpoint.Stream{
			"configmaps.v1/shop": {Epoch: 5, Since: 5, Namespaced: true, Owes: owes, Reselected: reselected},
			"configmaps.v1/bank": {Epoch: 5, Since: 5, Namespaced: true, Owes: owes},
		}}, &membership.Assignment{
			Stream: source.Stream{Resource: configMaps}, From: []string{"configmaps.v1/bank", "configmaps.v1/shop"}, Same: true,
		})
		assert.Equal(t, reselected, to.Reselected)
		assert.Equal(t, sequence.Republish, to.Owes.List)
	}
}

func TestPlan_keeps_versions_of_refused_objects_within_one_epoch_only(t *testing.T) {
	refused := func(changes int, version string) []checkpoint.Refused {
		return []checkpoint.Refused{{Key: "bank/x", Changes: changes, Version: version}}
	}
	for name, c := range map[string]struct {
		since uint64
		want  checkpoint.Refused
	}{
		"versions compare":        {5, checkpoint.Refused{Key: "bank/x", Changes: 2, Version: "1000"}},
		"versions do not compare": {9, checkpoint.Refused{Key: "bank/x", Changes: 2}},
	} {
		to := planOne(t, &checkpoint.State{Streams: map[string]checkpoint.Stream{
			"configmaps.v1/bank": {Position: "1000", Epoch: 5, Since: 5, Namespaced: true, Refused: refused(1, "900")},
			"configmaps.v1/shop": {Position: "1001", Epoch: 9, Since: c.since, Namespaced: true, Refused: refused(2, "1000")},
		}}, &membership.Assignment{
			Stream: source.Stream{Resource: configMaps}, From: []string{"configmaps.v1/bank", "configmaps.v1/shop"},
		})
		assert.Equal(t, []checkpoint.Refused{c.want}, to.Refused, name)
	}
}

// A stream of one namespace takes its objects; the others are deleted in the log, under the same number.
func TestPlan_retires_what_is_left(t *testing.T) {
	row := checkpoint.Row{UID: "u1", ResourceVersion: "9", Epoch: 5, Version: 9}
	m := Plan(&checkpoint.State{
		Streams: map[string]checkpoint.Stream{"configmaps.v1": {Position: "10", Epoch: 5, Namespaced: true}},
		Rows:    map[string]map[string]checkpoint.Row{"configmaps.v1": {"shop/a": row, "bank/b": row}},
	}, Handover{From: []string{"configmaps.v1"}, To: []*membership.Assignment{{
		Stream: source.Stream{Resource: configMaps, Namespace: "shop"}, From: []string{"configmaps.v1"}, Same: true,
	}}}, next)
	assert.Equal(t, map[string]map[string]checkpoint.Row{
		"configmaps.v1/shop": {"shop/a": row}, "configmaps.v1": {"bank/b": row},
	}, m.Rows)
	assert.Empty(t, m.Batch.Forget)
	assert.Equal(t, []string{"shop/a"}, m.Batch.Drop["configmaps.v1"])
	assert.Equal(t, map[string]checkpoint.Row{"shop/a": row}, m.Batch.Put["configmaps.v1/shop"])
	left := m.Batch.Streams["configmaps.v1"]
	assert.True(t, left.Retiring && left.Epoch == next(), "what is left is stored as %+v", left)
	assert.Equal(t, "10", m.Batch.Streams["configmaps.v1/shop"].Position)
}

// A floor says nothing of what the stream that it is of has not selected, and goes with the objects that it is about.
func TestPlan_gives_a_namespace_no_floor_of_others(t *testing.T) {
	all, bank := source.Stream{Resource: configMaps}, source.Stream{Resource: configMaps, Namespace: "bank"}
	floors := []sequence.Floor{{Position: 100}, {Namespace: "shop", Position: 90}}
	to := planOne(t, &checkpoint.State{Streams: map[string]checkpoint.Stream{
		all.Name(): {Position: "50", Epoch: 5, Namespaced: true, Floors: floors},
	}}, &membership.Assignment{Stream: bank, From: []string{all.Name()}, Same: true})
	assert.Equal(t, "50", to.Position)
	assert.Equal(t, floors[:1], to.Floors)

	to = planOne(t, &checkpoint.State{Streams: map[string]checkpoint.Stream{
		bank.Name(): {Position: "50", Epoch: 5, Namespaced: true, Floors: floors},
	}}, &membership.Assignment{Stream: all, From: []string{bank.Name()}, Same: true})
	assert.Equal(t, floors[:1], to.Floors)
}
