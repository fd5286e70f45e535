// SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
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
	// Epoch is in the sequence of the next change; versions of events with an epoch below Since do not compare.
	Epoch uint64 `json:"epoch"`
	Since uint64 `json:"since,omitempty"`
	// Newest is the greatest sequence of an object's last event.
	Newest string `json:"newest,omitempty"`
	// Selectors identifies the namespace and the selectors of which the log is complete.
	Selectors string `json:"selectors,omitempty"`
	// Owes is what the next start has to do.
	Owes []string `json:"owes"`
}

// Log is what a checkpoint knows of the log.
type Log struct {
	ID string `json:"id,omitempty"`
	// Marks bound, by partition, what need not be read back at a start.
	Marks map[int32]uint64 `json:"marks,omitempty"`
	// Ends are the places, by partition, of the last messages that were acknowledged, and IDs their ids.
	Ends map[int32]uint64 `json:"ends,omitempty"`
	IDs  map[int32]string `json:"ids,omitempty"`
	// Given is the greatest epoch that was given out, Resyncs the greatest number of a resync, a repair or a rewind,
	// and Term that of a writer; 0 where there was none.
	Given   uint64 `json:"given"`
	Resyncs int64  `json:"resyncs"`
	Term    int64  `json:"term,omitempty"`
}

// Describe returns what was found of a pipeline's checkpoint.
func Describe(pipeline, where string, f *Found) *Report {
	r := &Report{Pipeline: pipeline, Where: where, Streams: []Stream{}}
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
		saved := f.State.Streams[name]
		s := describe(name, &saved, f.State.Rows[name])
		r.Objects += s.Objects
		r.Streams = append(r.Streams, s)
	}
	r.Log = Log{
		ID: log.ID, Marks: log.Marks, Ends: log.Ends, IDs: log.IDs, Given: log.Given, Resyncs: log.Resyncs, Term: log.Term,
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

func describe(name string, saved *checkpoint.Stream, rows map[string]checkpoint.Row) Stream {
	s := Stream{
		Name: name, Position: saved.Position, Epoch: saved.Epoch, Since: saved.Since, Selectors: saved.Fingerprint,
		Owes: append(firstOwed(saved), laterOwed(saved, rows)...),
	}
	var newest sequence.Sequence
	for _, row := range rows {
		if row.Deleted {
			s.Deletions++
		} else {
			s.Objects++
		}
		if last := row.Last(); last.After(newest) {
			newest = last.Sequence
		}
	}
	if len(rows) > 0 {
		s.Newest = newest.String()
	}
	return s
}

// listWords say what a list is that a stream owes.
var listWords = map[sequence.Owes]string{
	sequence.Relist:    "a list",
	sequence.Reselect:  "a list of what is selected",
	sequence.Republish: "a list that publishes everything again",
	sequence.Repair:    "a list that publishes everything again, between resync markers",
}

// firstOwed says for a person what a stream has begun, or has to do, before it watches on.
func firstOwed(s *checkpoint.Stream) []string {
	owed := []string{}
	if s.Retiring {
		owed = append(owed, "the deletion of all that it has, as it is not selected any more")
	}
	switch {
	case s.Owes.List != sequence.Nothing && s.Owes != (checkpoint.Owes{List: sequence.Reselect}):
		owed = append(owed, owedList(&s.Owes))
	case s.Position == "" || s.Owes.List != sequence.Nothing:
		owed = append(owed, "a snapshot")
	}
	if s.Announced != "" {
		owed = append(owed, "the rest of the list that "+s.Announced+" has announced")
	}
	if s.Unannounced != (checkpoint.Snapshot{}) {
		owed = append(owed, "the word that the snapshot at "+s.Unannounced.ResourceVersion+" is complete")
	}
	return owed
}

// owedList describes a list with its reason.
func owedList(o *checkpoint.Owes) string {
	text := cmp.Or(listWords[o.List], "a list")
	if o.Version != "" {
		text += ", at " + o.Version + " or later"
	}
	if o.From != "" {
		text += ", behind a gap from " + o.From
	}
	if o.Number != 0 {
		text += ", number " + strconv.FormatInt(o.Number, 10)
	}
	if o.Cause != "" {
		text += " (" + o.Cause + ")"
	}
	if o.Message != "" {
		text += ": " + o.Message
	}
	return text
}

// laterOwed says for a person what a stream does while it watches.
func laterOwed(s *checkpoint.Stream, rows map[string]checkpoint.Row) (owed []string) {
	if s.ResyncDue {
		owed = append(owed, "a resync")
	}
	if s.Replay.To != "" {
		owed = append(owed, "a replay up to "+s.Replay.To)
	}
	behind := 0
	for _, row := range rows {
		if row.Behind {
			behind++
		}
	}
	if behind > 0 {
		owed = append(owed, fmt.Sprintf("the last event of objects of which the log has an older state last: %d", behind))
	}
	return owed
}
