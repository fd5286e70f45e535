// SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"maps"
	"slices"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

// Report says what a checkpoint holds.
type Report struct {
	Pipeline string `json:"pipeline"`
	// Where is the file or the topic.
	Where string `json:"where"`
	// Exists is false where nothing was ever committed; then nothing else is known.
	Exists bool `json:"exists"`
	// Cluster and ClusterUID are those of the bridge that wrote it.
	Cluster    string     `json:"cluster,omitempty"`
	ClusterUID string     `json:"clusterUID,omitempty"`
	Saved      *time.Time `json:"saved,omitempty"`
	// Objects are those that the log has as existing.
	Objects int      `json:"objects"`
	Streams []Stream `json:"streams"`
	Log     Log      `json:"log"`
}

// Stream is one of a checkpoint.
type Stream struct {
	Name string `json:"name"`
	// Position is the version from which a watch loses nothing; empty where a list comes first.
	Position string `json:"position"`
	Objects  int    `json:"objects"`
	// Deletions are those that a watch from the position would show again.
	Deletions int `json:"deletions"`
	History   int `json:"history"`
	// Selectors identifies the namespace and the selectors of which the log is complete.
	Selectors string `json:"selectors,omitempty"`
	// Owes is what the next start does before anything else.
	Owes []string `json:"owes"`
}

// Log is what a checkpoint knows of the log.
type Log struct {
	ID string `json:"id,omitempty"`
	// Marks bound, by partition, what need not be read back at a start.
	Marks  map[int32]uint64 `json:"marks,omitempty"`
	Losses int              `json:"losses"`
	Trail  []Waypoint       `json:"trail"`
}

// Waypoint says which positions were safe when the log ended at Marks.
type Waypoint struct {
	Marks     map[int32]uint64  `json:"marks"`
	Positions map[string]string `json:"positions"`
}

// Describe returns what was found of a pipeline's checkpoint.
func Describe(pipeline, where string, f *Found) *Report {
	r := &Report{Pipeline: pipeline, Where: where, Streams: []Stream{}, Log: Log{Trail: []Waypoint{}}}
	if f.State.Identity == (checkpoint.Identity{}) {
		return r
	}
	id, log := f.State.Identity, f.State.Log
	r.Exists, r.Cluster, r.ClusterUID = true, id.Cluster, id.ClusterUID
	if !f.Saved.IsZero() {
		saved := f.Saved.UTC().Truncate(time.Second)
		r.Saved = &saved
	}
	for _, name := range Streams(f.State) {
		s := describe(name, f.State.Streams[name], f.State.Rows[name])
		r.Objects += s.Objects
		r.Streams = append(r.Streams, s)
	}
	r.Log.ID, r.Log.Marks, r.Log.Losses = log.ID, log.Marks, log.Losses
	for _, w := range log.Trail {
		r.Log.Trail = append(r.Log.Trail, Waypoint{Marks: w.Marks, Positions: w.Positions})
	}
	return r
}

// Streams returns the names of a checkpoint's streams, in order.
func Streams(state *checkpoint.State) []string {
	names := maps.Clone(state.Streams)
	for name := range state.Rows {
		if _, ok := names[name]; !ok {
			names[name] = checkpoint.Stream{}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func describe(name string, saved checkpoint.Stream, rows map[string]checkpoint.Row) Stream {
	s := Stream{Name: name, Position: saved.Position, History: saved.History, Selectors: saved.Fingerprint, Owes: owes(saved)}
	for _, row := range rows {
		if row.Deleted {
			s.Deletions++
		} else {
			s.Objects++
		}
	}
	return s
}

// owes says for a person what a stream has begun, or has to do, before it watches on.
func owes(s checkpoint.Stream) []string {
	owed := []string{}
	add := func(is bool, text string) {
		if is {
			owed = append(owed, text)
		}
	}
	add(s.Leaving != "", "the deletion of all that it has, as its namespace was not selected any more at "+s.Leaving)
	add(s.Undone != "", "another history: "+s.Undone)
	add(s.Position == "" && s.Gap.From == "", "a snapshot")
	add(s.Position == "" && s.Gap.From != "", "a list behind a gap from "+s.Gap.From+": "+s.Gap.Cause)
	add(s.Owed.Version != "", "a list at "+s.Owed.Version+" or later: "+s.Owed.Cause)
	add(s.Announced != "", "the rest of the list that "+s.Announced+" has announced")
	add(s.Unannounced != (checkpoint.Snapshot{}), "the word that the snapshot at "+s.Unannounced.ResourceVersion+" is complete")
	add(s.Repair != "", "what the log has lost, up to "+s.Repair)
	add(s.Replay.To != "", "a replay up to "+s.Replay.To)
	return owed
}
