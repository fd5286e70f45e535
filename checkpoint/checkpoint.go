// SPDX-License-Identifier: Apache-2.0

// Package checkpoint remembers how far a stream's changes have been published, and which state of each object the log
// has.
//
// A position only ever names a version up to which everything has been settled: published and acknowledged,
// or known not to be published. After a crash a position may be old, never too new.
package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
)

// Row is what the log has of one object: its last event.
type Row struct {
	UID, ResourceVersion string
	// Epoch and Version are those of the event's sequence. Version is the number of ResourceVersion. It is greater in
	// a tombstone of an object whose end no watch has shown, and it is a number of the stream's own where versions are
	// not numbers.
	Epoch, Version uint64
	// Sequence is the place in the log of the object's last event; 0 where it was not published or the log has no
	// places.
	Sequence  uint64
	Partition int32
	// Deleted marks a tombstone: the object is gone, the row stays until the position has passed Version.
	Deleted bool
	// Behind says that the log's last message of the object is not this one: it is an older state, which a rewind has
	// published again, or the log has lost this one.
	Behind bool
	// Rejected says that a rejected event stands in the place of this one.
	Rejected bool
	// Digest stands for the part of the state that matters to whoever decides what is published, as far as that is
	// known; else it is zero.
	Digest [16]byte
	// Form stands for what the log's last event of the object tells of this very state, where that is known and the
	// next event may be made from it; else it is zero.
	Form uint32
	// Written is when the state was written, in seconds since 1970, as it tells; 0 where that is not known. Two states
	// of one version with different times are of different histories of the API server.
	Written int64
	// Fresh says that this process published the object's last event itself, so that Sequence needs no check. It is not
	// stored.
	Fresh bool
}

// OwesEnd reports whether the log has to be told the end of the object if it does not exist.
func (r *Row) OwesEnd() bool { return !r.Deleted || r.Behind }

// Last returns the row for the rules of package sequence.
func (r *Row) Last() sequence.Row {
	last := sequence.Row{
		UID: r.UID, Sequence: sequence.Sequence{Epoch: r.Epoch, Version: r.Version}, Behind: r.Behind, Rejected: r.Rejected,
		Hash: uint64(r.Written),
	}
	if r.Deleted {
		last.Step = sequence.End
	}
	return last
}

// Stream is the state of one stream.
type Stream struct {
	// Position is the version from which a watch loses nothing; empty while the first list is not in the log.
	Position string
	// Fingerprint identifies the stream's selectors, to which the rows and Position belong.
	Fingerprint string
	// Epoch is that of the next change, and Since the one of the stream's last first case: versions of rows with a
	// smaller epoch do not compare. See package sequence.
	Epoch, Since uint64
	// Counter is the greatest number that stands for a version that is not a number.
	Counter uint64
	// Alone says that the stream has begun Epoch on its own, and has told no other stream: if one tells of a
	// restoration, that is the one.
	Alone bool
	// Owes is a list that has to be made, and to be in the log, before the stream is watched from Position.
	Owes Owes
	// Reselected says that the list that is owed is of another selection than the log has, whatever its cause says.
	Reselected bool
	// Unannounced is a first list that the log has in full, but perhaps not yet the word that it is complete.
	Unannounced Snapshot
	// Announced is the id of the marker of a list that has begun and is not complete: the log has it.
	Announced string
	// Resynced is when the newest slot began, in seconds since 1970, in which all of the stream was published again on
	// schedule, or for which that was not due any more; 0 where there is no schedule.
	Resynced int64
	// ResyncDue says that everything is to be published again between markers, as soon as the stream watches: the log
	// may lack the last event of an object.
	ResyncDue bool
	// Kind is that of the stream's objects, and Namespaced says that they are in namespaces: the stream's name does not
	// tell.
	Kind       string
	Namespaced bool
	// Called are the names of the resource in the entries that select objects of the stream. A name keeps its meaning
	// while that is served.
	Called []string
	// Floors are the positions of the streams that this one took objects from. What a watch shows of these objects up
	// to there is in the log. See package sequence.
	Floors []sequence.Floor
	// Entered is the version of the stream's namespace at which a selector of namespaces took it; empty where none did.
	Entered string
	// Retiring says that the stream ends: everything that it has is being deleted in the log, under Epoch.
	Retiring bool
	// Refused are objects, in the order of their keys, of which the broker took neither the last event nor a rejection
	// in its place. Their rows are of what the log has. The position does not wait for them.
	Refused []Refused
	// Replay says that the stream was rewound: what is watched again is published again.
	Replay Replay
}

// Equal reports whether the store has nothing to change.
func (s *Stream) Equal(o *Stream) bool { return reflect.DeepEqual(s, o) }

// Refused is an object of which the broker takes nothing.
type Refused struct {
	Key string
	// Changes is how many are in no event.
	Changes int
	// Version is the resourceVersion of the newest change or state that was refused; empty where none compares any
	// more.
	Version string
}

// Replay is what was asked for to be published again. The zero Replay is nothing.
type Replay struct {
	// To is the version up to which changes may have been published before.
	To string
	// Number tells the events from those of other replays, as it is in their ids.
	Number int64
}

// Owes is a list that is owed. The zero Owes is none.
type Owes struct {
	List sequence.Owes
	// From is the version up to which the log is complete, "0" where it has nothing; empty where the list is a first
	// one, so that there is no gap.
	From string
	// Version is that of the list that was to be made; another one must not be older. Empty where any will do.
	Version string
	// Cause and Message say why, as the gap does.
	Cause, Message string
	// Number is in the resync markers of a repair; 0 where the list is none.
	Number int64
}

// Log is what is known of the log that a pipeline publishes to.
type Log struct {
	// ID tells the log from another one of its name.
	ID string
	// Marks are places, by partition, that bound what the rows do not know of: every message of the pipeline at or
	// before its partition's mark is taken into account. Nil where the log has no places, or nothing was published.
	Marks map[int32]uint64
	// Ends are the places of the last messages that were acknowledged, and IDs the ids of these messages, by which a
	// log is known to be the same up to there.
	Ends map[int32]uint64
	IDs  map[int32]string
	// Given is the greatest epoch that the pipeline has given out, or that the log has.
	Given uint64
	// Resyncs is the greatest number of a resync, a repair or a rewind.
	Resyncs int64
	// Term is the greatest number under which one of several writers has written; 0 where there was one only.
	Term int64
	// ResyncNew says that a stream is resynced once it watches if the store does not have it: the log may have lost its
	// last events, and the checkpoint that knew them is lost. It holds until all streams of the entries have begun. It
	// holds for good if an entry has a wildcard or a selector of namespaces, as another stream of it may begin at any
	// time.
	ResyncNew bool
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
	// Commit makes the whole batch durable, or nothing of it. Once it returns nil the batch survives a crash of the
	// machine. After an error either may be true, until what the batch named is committed again.
	Commit(ctx context.Context, b *Batch) error
}

// Holder is a [Store] that processes on other machines can reach. They know by what is written that it is used.
type Holder interface {
	// Hold says that this process still uses the store. It is called at least once a second while the store is used,
	// and writes only if nothing was written for a while. An error that is not [IsPermanent] may pass.
	Hold(ctx context.Context) error
}

// HeldError says that another process uses a store. It passes when that process ends.
type HeldError struct {
	// Holder names the process.
	Holder string
}

// Error implements error.
func (e *HeldError) Error() string {
	return fmt.Sprintf("another kube-eventbridge uses it (%s): stop one of the two, "+
		"or set leaderElection for both, so that one waits for the end of the other", e.Holder)
}

// ForeignError says that a store belongs to another cluster or pipeline.
type ForeignError struct {
	Path      string
	Has, Want Identity
}

// Error implements error.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("checkpoint %s was written for cluster %q (kube-system uid %s), pipeline %q, and this is cluster "+
		"%q (%s), pipeline %q: name another path, or move the old one away; then what exists is published again, after "+
		"what the log has",
		e.Path, e.Has.Cluster, e.Has.ClusterUID, e.Has.Pipeline, e.Want.Cluster, e.Want.ClusterUID, e.Want.Pipeline)
}

// Permanent implements what [IsPermanent] asks for.
func (*ForeignError) Permanent() bool { return true }

// IsTaken reports whether a store's error says that another process has opened the store since. Such an error has a
// method Taken that returns true.
func IsTaken(err error) bool {
	var t interface{ Taken() bool }
	return errors.As(err, &t) && t.Taken()
}

// IsPermanent reports whether a store's error stays however often what failed is tried again: somebody has to do
// something first. Such an error has a method Permanent that returns true.
func IsPermanent(err error) bool {
	var p interface{ Permanent() bool }
	return errors.As(err, &p) && p.Permanent()
}

// Number returns the number that a resourceVersion is; false where it is none, or is not written as numbers are.
func Number(version string) (uint64, bool) {
	if version == "" || version[0] == '0' || version[0] == '+' {
		return 0, false
	}
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0, false
	}
	return n, true
}
