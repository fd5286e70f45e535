// SPDX-License-Identifier: Apache-2.0

package source

import "time"

// ProgressKind says what a [Progress] records.
type ProgressKind uint8

// The kinds of progress.
const (
	// Bookmark: the stream has shown everything up to Version.
	Bookmark ProgressKind = iota + 1
	// SnapshotStarted: a first list at Version follows.
	SnapshotStarted
	// Recovering: a watch cannot go on from the last position, and what the history still has of the time up to Version
	// follows; then a Gap.
	Recovering
	// Gap: a watch cannot go on from the last position; a list at Version follows. Why says what was read back, too, of
	// the history in between.
	Gap
	// Listed: the list at Version is complete. What was known and did not appear in it no longer exists.
	Listed
)

// Progress is a point in a stream between changes.
type Progress struct {
	Kind    ProgressKind
	Version string
	// Objects is the number of objects of a finished list.
	Objects int
	// Why is why there is a gap.
	Why
	Seen time.Time
}

// Why is why a stream lists although it has a position: Message says so for a person.
type Why struct {
	Cause   Cause
	Message string
}

// Cause is why there is a gap. It is the value of the member cause of a gap's data.
type Cause string

// The causes.
const (
	// CauseExpired: the API server has forgotten what a watch would have shown.
	CauseExpired Cause = "expired"
	// CauseRestored: etcd was restored, so that versions do not compare with those before.
	CauseRestored Cause = "restored"
	// CauseRebuilt: the API server, or an aggregated one, has begun with other objects and versions.
	CauseRebuilt Cause = "rebuilt"
	// CauseLogLost: the log has lost what it had acknowledged.
	CauseLogLost Cause = "log-lost"
	// CauseCheckpointLost: the checkpoint was lost, or is older than the log.
	CauseCheckpointLost Cause = "checkpoint-lost"
	// CauseSelection: the entry selects other namespaces or objects than before, or another version.
	CauseSelection Cause = "selection"
	// CauseResourceGone: the resource was not served for a time.
	CauseResourceGone Cause = "resource-gone"
	// CauseAudit: an audit has found objects that differ from the log.
	CauseAudit Cause = "audit"
)

// Marker is what the log is told about a stream rather than about an object of it.
type Marker struct {
	Kind MarkerKind
	// Epoch is the stream's.
	Epoch uint64
	// From and To are versions. A gap has both; the others have only To: the version of a snapshot's list, or the
	// stream's position at a resync, which may be empty.
	From, To string
	// Objects is the number of objects of a completed snapshot or resync.
	Objects int
	// Why is why there is a gap.
	Why
	// Number is that of a resync.
	Number int64
	// Complete says of a completed resync that every object of the scope was told, so that what was not told is gone.
	Complete bool
	Seen     time.Time
}

// MarkerKind is the kind of a [Marker].
type MarkerKind uint8

// The kinds of markers.
const (
	MarkerGap MarkerKind = iota + 1
	MarkerSnapshotStarted
	MarkerSnapshotCompleted
	MarkerResyncStarted
	MarkerResyncCompleted
)
