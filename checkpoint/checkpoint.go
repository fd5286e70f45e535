// SPDX-License-Identifier: Apache-2.0

// Package checkpoint remembers how far a stream's changes have been published, and which state of each object the log has.
//
// A position only ever names a version up to which everything has been settled: published and acknowledged,
// or known not to be published. After a crash a position may be old, never too new.
package checkpoint

import (
	"context"
	"errors"
	"fmt"
)

// Row is what the log has of one object.
type Row struct {
	UID, ResourceVersion string
	// Sequence is the place in the log of the object's last event; 0 where it was not published or the log has no places.
	Sequence  uint64
	Partition int32
	// Superseded says that ResourceVersion is of a history that ended, when etcd was restored: whatever the API server
	// shows now is newer. UID and Sequence still hold.
	Superseded bool
	// Deleted marks a tombstone: the object is gone, the row stays until the position has passed ResourceVersion.
	Deleted bool
	// Digest stands for the part of the state that matters to whoever decides what is published, as far as that is known; else it is zero.
	Digest [16]byte
	// Form stands for what the log's last event of the object tells of this very state, where that is known and the next event may be made from it; else it is zero.
	Form uint32
	// Again says that the log may be told this state, and older ones, once more, where the stream has a Replay: it has told them before that was asked for.
	Again bool
	// Fresh says that this process published the object's last event itself, so that Sequence needs no check. It is not stored.
	Fresh bool
}

// Stream is the state of one stream.
type Stream struct {
	// Position is the version from which a watch loses nothing; empty while the first list is not in the log.
	Position string
	// Fingerprint identifies the stream's selectors.
	Fingerprint string
	// History counts how often the cluster's etcd was seen restored.
	History int
	// Unannounced is a first list that the log has in full, but perhaps not yet the word that it is complete.
	Unannounced Snapshot
	// Announced is the id of the marker of a list that has begun and is not complete: the log has it.
	Announced string
	// Gap is one that a list has to announce before anything else is published. Position is empty then.
	Gap Gap
	// Owed says that states from behind Position were published out of the order of versions: read back, or found by a list that is not complete. No
	// watch can go on at Position before a list is.
	Owed Owed
	// Undone is why the history is over: another stream has seen that etcd was restored. The next list begins another one. Empty where it is not.
	Undone string
	// Alone says that the stream has begun its history on its own, and has told no other: if one tells of a restoration, that is the one.
	Alone bool
	// Repair is the version up to which the log may have had changes, and lost them; empty where it has lost nothing. What is
	// not newer is published again.
	Repair string
	// Resynced is when the newest slot began, in seconds since 1970, in which all of the stream was published again on schedule, or for which that was
	// not due any more; 0 where there is no schedule.
	Resynced int64
	// Kind is that of the stream's objects, and Namespaced says that they are in namespaces: the stream's name does not tell.
	Kind       string
	Namespaced bool
	// Called is what the configuration calls the resource where that is not its plural: once the API server has it no more, no one else knows. Empty where it is.
	Called string
	// Entered is the version of the stream's namespace at which a selector of namespaces took it; Leaving the one at which it did not any more, while what the stream
	// had is being deleted. Empty where there was no such thing.
	Entered, Leaving string
	// Replay says that the stream was rewound: what is watched again is published again.
	Replay Replay
}

// Replay is what was asked for to be published again. The zero Replay is nothing.
type Replay struct {
	// To is the version up to which changes may have been published before.
	To string
	// Number tells the events from those of other replays, as it is in their ids.
	Number int64
}

// Owed is a list that is owed. The zero Owed is none.
type Owed struct {
	// Version is the version of the list that was to be made; another one must not be older.
	Version string
	// Cause says why, for a person.
	Cause string
}

// Gap is a range of versions that begins after From and of which nothing is known. The zero Gap is none.
type Gap struct {
	// From is the version up to which the log is complete, "0" where it has nothing.
	From string
	// Cause says why, for a person.
	Cause string
}

// Log is what is known of the log that a pipeline publishes to.
type Log struct {
	// ID tells the log from another one of its name.
	ID string
	// Marks are sequences, by partition, that bound what the rows do not know of: every message of the pipeline at or before its partition's mark
	// is taken into account. Nil where the log has no sequences, or nothing was published.
	Marks map[int32]uint64
	// Losses counts how often the log was seen to have lost what it had acknowledged.
	Losses int
	// Histories is the greatest History of a stream that has told others.
	Histories int
	// Epoch is the greatest number under which one of several writers has written; 0 where there was one only.
	Epoch int64
	// Trail are older positions, oldest first.
	Trail []Waypoint
}

// Waypoint says which positions were safe when the log ended at Marks: everything up to them is in the log at or before Marks.
type Waypoint struct {
	Marks map[int32]uint64
	// IDs are those of the messages at Marks, by which a log is known to be the same up to there.
	IDs map[int32]string
	// Positions is keyed by the stream's name.
	Positions map[string]string
}

// Snapshot is a first list. The zero Snapshot is none.
type Snapshot struct {
	ResourceVersion string
	Objects         int
}

// Identity says whose checkpoint it is.
type Identity struct {
	// ClusterUID is the uid of the namespace kube-system.
	ClusterUID string
	// Cluster is the name that events carry.
	Cluster  string
	Pipeline string
}

// State is everything a store holds.
type State struct {
	// Identity is the zero value in a store that was never written.
	Identity Identity
	Log      Log
	// Streams is keyed by the stream's name.
	Streams map[string]Stream
	// Rows is keyed by the stream's name, then by "namespace/name" or "name".
	Rows map[string]map[string]Row
}

// Batch is what one commit changes. Streams and rows that it does not name stay as they are.
type Batch struct {
	Identity Identity
	// Log replaces what is known of the log, if it is not nil.
	Log     *Log
	Streams map[string]Stream
	// Put and Drop are keyed like State.Rows; Drop wins over nothing: a key is in one of the two.
	Put  map[string]map[string]Row
	Drop map[string][]string
	// Forget names streams whose position and rows are removed.
	Forget []string
}

// Store keeps the state of one pipeline. One process at a time uses a store; a second is refused on open.
type Store interface {
	// Load returns what was committed last.
	Load(ctx context.Context) (*State, error)
	// Commit makes the whole batch durable, or nothing of it. Once it returns nil the batch survives a crash of the machine. After an error either may be
	// true, until what the batch named is committed again.
	Commit(ctx context.Context, b *Batch) error
}

// ForeignError says that a store belongs to another cluster or pipeline.
type ForeignError struct {
	Path      string
	Has, Want Identity
}

// Error implements error.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("checkpoint %s was written for cluster %q (kube-system uid %s), pipeline %q, and this is cluster %q (%s), pipeline %q: "+
		"name another path, or move the old one away; then what exists is published again, after what the log has",
		e.Path, e.Has.Cluster, e.Has.ClusterUID, e.Has.Pipeline, e.Want.Cluster, e.Want.ClusterUID, e.Want.Pipeline)
}

// Permanent implements what [IsPermanent] asks for.
func (*ForeignError) Permanent() bool { return true }

// IsTaken reports whether a store's error says that another process has opened the store since. Such an error has a method Taken that returns true.
func IsTaken(err error) bool {
	var t interface{ Taken() bool }
	return errors.As(err, &t) && t.Taken()
}

// IsPermanent reports whether a store's error stays however often what failed is tried again: somebody has to do something first. Such an error has a
// method Permanent that returns true.
func IsPermanent(err error) bool {
	var p interface{ Permanent() bool }
	return errors.As(err, &p) && p.Permanent()
}
