// SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/resourceversion"

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
	Stream, From, To string
	// Objects are those that are forgotten, or of which more may be published again.
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

// Rewind moves the positions of the named streams, or of all that are ahead, back to a version, so that what comes after it is published again, by events with
// number in their ids, which must not be that of an earlier replay. A change without moves is one that has nothing to do.
// It refuses a version that a named stream has not reached, or none has, and a stream that has something else to do first.
func Rewind(state *checkpoint.State, names []string, to string, number int64) (*Change, error) {
	if n, err := strconv.ParseUint(to, 10, 64); err != nil || n == 0 || strconv.FormatUint(n, 10) != to {
		return nil, choicef("%q is not a resourceVersion to go back to; write a number above 0, such as the metadata.resourceVersion of an object", to)
	}
	all := len(names) == 0
	names, err := chosen(state, names)
	if err != nil {
		return nil, err
	}
	c := &Change{Batch: &checkpoint.Batch{Identity: state.Identity, Streams: map[string]checkpoint.Stream{}, Put: map[string]map[string]checkpoint.Row{}}}
	var ahead, moved []string
	for _, name := range names {
		order, err := rewindable(name, state.Streams[name], to)
		switch {
		case err != nil:
			return nil, err
		case order < 0:
			ahead = append(ahead, fmt.Sprintf("%s is at %s", name, state.Streams[name].Position))
		case order > 0:
			c.rewind(state, name, to, number)
			moved = append(moved, name)
		}
	}
	if len(ahead) > 0 && (!all || len(ahead) == len(names)) {
		return nil, choicef("%s is ahead of where the log is complete: %s; choose a version before that", to, strings.Join(ahead, ", "))
	}
	log := state.Log
	log.Trail = without(state.Log.Trail, moved)
	c.Batch.Log = &log
	return c, nil
}

// rewind moves one stream. What was published of it may be ahead of its position.
func (c *Change) rewind(state *checkpoint.State, name, to string, number int64) {
	saved := state.Streams[name]
	c.Moves = append(c.Moves, Move{Stream: name, From: saved.Position, To: to, Objects: describe(name, saved, state.Rows[name]).Objects})
	replay := checkpoint.Replay{To: newest(saved.Position, saved.Replay.To), Number: number}
	rows := make(map[string]checkpoint.Row, len(state.Rows[name]))
	for key, row := range state.Rows[name] {
		if !row.Superseded {
			replay.To = newest(replay.To, row.ResourceVersion)
		}
		row.Again = true
		rows[key] = row
	}
	saved.Position, saved.Replay = to, replay
	c.Batch.Streams[name], c.Batch.Put[name] = saved, rows
}

// newest returns the later of two versions; those that are not numbers have no order.
func newest(a, b string) string {
	if order, err := resourceversion.CompareResourceVersion(b, a); err == nil && order > 0 {
		return b
	}
	return a
}

// rewindable compares a stream's position with a version: 1 if it is ahead of it. A stream that has begun a list has more to go back than a position.
func rewindable(name string, saved checkpoint.Stream, to string) (order int, err error) {
	saved.Replay = checkpoint.Replay{} // one that is under way may begin anew
	if owed := owes(saved); saved.Position == "" || len(owed) > 0 {
		return 0, choicef("stream %s cannot be rewound, as it has something to do first: %s; run the bridge until it has, or choose others with --stream",
			name, strings.Join(owed, "; "))
	}
	order, err = resourceversion.CompareResourceVersion(saved.Position, to)
	if err != nil {
		return 0, choicef("stream %s cannot be rewound: its position %q is not a number, so it has no order; reset it, or choose others with --stream", name, saved.Position)
	}
	return order, nil
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
