// SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

// ChoiceError says that what was asked for is none of what there is.
type ChoiceError struct{ err error }

// Error implements error.
func (e *ChoiceError) Error() string { return e.err.Error() }

// Unwrap returns what is wrong.
func (e *ChoiceError) Unwrap() error { return e.err }

func choicef(format string, args ...any) error { return &ChoiceError{fmt.Errorf(format, args...)} }

// Move is what a change does to a stream.
type Move struct {
	Stream, From string
	// Objects are those that are forgotten.
	Objects int
}

// Change is a batch, and what it does.
type Change struct {
	Batch *checkpoint.Batch
	Moves []Move
}

// Reset forgets the named streams, or all. What stays is which history of the cluster was published last, as ids must not be given twice, and
// what is known of the log.
func Reset(state *checkpoint.State, names []string) (*Change, error) {
	names, err := chosen(state, names)
	if err != nil {
		return nil, err
	}
	c := &Change{Batch: &checkpoint.Batch{Identity: state.Identity, Streams: map[string]checkpoint.Stream{}, Forget: names}}
	for _, name := range names {
		saved := state.Streams[name]
		if kept := (checkpoint.Stream{History: saved.History, Undone: saved.Undone, Alone: saved.Alone}); kept != (checkpoint.Stream{}) {
			c.Batch.Streams[name] = kept
		}
		c.Moves = append(c.Moves, Move{Stream: name, From: saved.Position, Objects: describe(name, saved, state.Rows[name]).Objects})
	}
	log := state.Log
	log.Trail = without(state.Log.Trail, names)
	c.Batch.Log = &log
	return c, nil
}

// without returns a trail that has no positions of streams: the rows that belonged to them are forgotten.
func without(trail []checkpoint.Waypoint, streams []string) []checkpoint.Waypoint {
	cut := make([]checkpoint.Waypoint, 0, len(trail))
	for _, w := range trail {
		w.Positions = maps.Clone(w.Positions)
		maps.DeleteFunc(w.Positions, func(name, _ string) bool { return slices.Contains(streams, name) })
		cut = append(cut, w)
	}
	return cut
}

// chosen returns the names, or those of all streams.
func chosen(state *checkpoint.State, names []string) ([]string, error) {
	known := Streams(state)
	if len(names) == 0 {
		return known, nil
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, choicef("the checkpoint has no stream %q; it has %s", name, cmp.Or(strings.Join(known, ", "), "none"))
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(names))), nil
}
