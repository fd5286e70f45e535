// SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

// ChoiceError says that what was asked for is not there.
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

// Reset forgets the named streams, or all. What is known of the log stays: the numbers that were given out must not be
// given again. A stream without a position takes a new one.
func Reset(state *checkpoint.State, names []string) (*Change, error) {
	names, err := chosen(state, names)
	if err != nil {
		return nil, err
	}
	c := &Change{Batch: &checkpoint.Batch{Identity: state.Identity, Forget: names}}
	for _, name := range names {
		saved := state.Streams[name]
		objects := describe(name, &saved, state.Rows[name]).Objects
		c.Moves = append(c.Moves, Move{Stream: name, From: saved.Position, Objects: objects})
	}
	return c, nil
}

// Rewind moves the positions of the named streams, or of all that are ahead, back to a version, so that what comes
// after it is published again. The ids of these events have a number that no earlier resync or rewind had: the time
// now, in seconds since 1970, or a greater one. A change without moves is one that has nothing to do. Rewind refuses a
// version that a named stream has not reached, or none has, and a stream that has something else to do first.
func Rewind(state *checkpoint.State, names []string, to string, now int64) (*Change, error) {
	version, is := checkpoint.Number(to)
	if !is {
		return nil, choicef("%q is not a resourceVersion to go back to; write a number above 0, "+
			"such as the metadata.resourceVersion of an object", to)
	}
	all := len(names) == 0
	names, err := chosen(state, names)
	if err != nil {
		return nil, err
	}
	log := state.Log
	log.Resyncs = max(log.Resyncs+1, now)
	c := &Change{Batch: &checkpoint.Batch{Identity: state.Identity, Log: &log, Streams: map[string]checkpoint.Stream{}}}
	var ahead []string
	for _, name := range names {
		saved := state.Streams[name]
		position, err := rewindable(name, &saved)
		switch {
		case err != nil:
			return nil, err
		case position < version:
			ahead = append(ahead, fmt.Sprintf("%s is at %s", name, saved.Position))
		case position > version:
			c.rewind(name, &saved, state.Rows[name], to)
		}
	}
	if len(ahead) > 0 && (!all || len(ahead) == len(names)) {
		return nil, choicef("%s is ahead of where the log is complete: %s; choose a version before that", to,
			strings.Join(ahead, ", "))
	}
	return c, nil
}

// rewind moves one stream. Its rows stay: they say what the log has, which may be ahead of the position.
func (c *Change) rewind(name string, saved *checkpoint.Stream, rows map[string]checkpoint.Row, to string) {
	objects := describe(name, saved, rows).Objects
	c.Moves = append(c.Moves, Move{Stream: name, From: saved.Position, To: to, Objects: objects})
	position, _ := checkpoint.Number(saved.Position)
	earlier, _ := checkpoint.Number(saved.Replay.To)
	newest := max(position, earlier)
	for _, row := range rows {
		if row.Epoch >= saved.Since {
			newest = max(newest, row.Version)
		}
	}
	after := *saved
	after.Position, after.Floors = to, nil
	after.Replay = checkpoint.Replay{To: strconv.FormatUint(newest, 10), Number: c.Batch.Log.Resyncs}
	after.Refused = slices.Clone(saved.Refused)
	for i := range after.Refused { // what is published again stands for itself
		after.Refused[i] = checkpoint.Refused{Key: after.Refused[i].Key}
	}
	c.Batch.Streams[name] = after
}

// rewindable returns the position of a stream. A stream that owes a list has more to go back than a position.
func rewindable(name string, saved *checkpoint.Stream) (position uint64, err error) {
	if first := firstOwed(saved); len(first) > 0 {
		return 0, choicef("stream %s cannot be rewound, as it has something to do first: %s; "+
			"run the bridge until it has, or choose others with --stream", name, strings.Join(first, "; "))
	}
	position, is := checkpoint.Number(saved.Position)
	if !is {
		return 0, choicef("stream %s cannot be rewound: its position %q is not a number, so it has no order; "+
			"reset it, or choose others with --stream", name, saved.Position)
	}
	return position, nil
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
