// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"
	"hash/fnv"
	"iter"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Op is what happened to an object, as seen by the stream it belongs to.
type Op uint8

// The operations.
const (
	Added Op = iota + 1
	Updated
	Deleted
)

// String returns the word used for the operation in event types and metrics.
func (o Op) String() string {
	switch o {
	case Added:
		return "added"
	case Updated:
		return "updated"
	case Deleted:
		return "deleted"
	default:
		return "unknown"
	}
}

// Reason is why a change is known; it is the value of the event's reason attribute.
type Reason string

// The reasons.
const (
	ReasonWatch     Reason = "watch"
	ReasonSnapshot  Reason = "snapshot"
	ReasonRelist    Reason = "relist"
	ReasonRecovered Reason = "recovered"
	ReasonResync    Reason = "resync"
	ReasonRepair    Reason = "repair"
	// ReasonDeselected is that of the end of an object that exists and is not selected any more.
	ReasonDeselected Reason = "deselected"
)

// Resource is one served resource.
type Resource struct {
	Group, Version, Resource, Kind string
	Namespaced                     bool
}

// APIVersion returns "v1" for the core group, else "group/version".
func (r Resource) APIVersion() string {
	if r.Group == "" {
		return r.Version
	}
	return r.Group + "/" + r.Version
}

// String returns the resource as kubectl takes it: "pods.v1", "deployments.v1.apps".
func (r Resource) String() string {
	s := r.Resource + "." + r.Version
	if r.Group != "" {
		s += "." + r.Group
	}
	return s
}

// GroupResource returns group and resource without the version.
func (r Resource) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.Group, Resource: r.Resource}
}

// Stream is one resource in one scope: what one watch delivers.
type Stream struct {
	Resource
	// Namespace is empty for all namespaces and for cluster-scoped resources.
	Namespace                    string
	LabelSelector, FieldSelector string
}

// Name identifies the stream within a pipeline: "pods.v1", or "pods.v1/kube-system" for one namespace.
// Selectors are not part of it.
func (s Stream) Name() string {
	if s.Namespace == "" {
		return s.Resource.String()
	}
	return s.Resource.String() + "/" + s.Namespace
}

// ParseName is the inverse of Stream.Name, but for what the name does not tell: the kind, the selectors, and of a
// stream of all namespaces whether there are any.
func ParseName(name string) (s Stream, ok bool) {
	resource, namespace, within := strings.Cut(name, "/")
	plural, rest, found := strings.Cut(resource, ".")
	version, group, _ := strings.Cut(rest, ".")
	s = Stream{
		Resource:  Resource{Group: group, Version: version, Resource: plural, Namespaced: within},
		Namespace: namespace,
	}
	return s, found && s.Name() == name
}

// Scope stands for namespace and selectors in the ids of events and markers: 8 hex digits, the same in every process.
func (s Stream) Scope() string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s.Namespace + "\x00" + s.LabelSelector + "\x00" + s.FieldSelector))
	return fmt.Sprintf("%08x", h.Sum32())
}

// Selective reports whether objects can enter and leave the stream without being created or deleted.
func (s Stream) Selective() bool { return s.LabelSelector != "" || s.FieldSelector != "" }

// Ident identifies one state of one object.
type Ident struct {
	// Namespace is empty for a cluster-scoped object.
	Namespace, Name, UID, ResourceVersion string
}

// Key returns "namespace/name", or "name" for a cluster-scoped object.
func (i Ident) Key() string {
	if i.Namespace == "" {
		return i.Name
	}
	return i.Namespace + "/" + i.Name
}

// Ticket stands for a change between the moment it is read off the wire and the moment it needs no further care.
// The zero Ticket stands for nothing.
type Ticket uint64

// Change is one state of one object, or its end.
type Change struct {
	Op Op
	Ident
	// Body is the object as the API server sent it; nil where only the identity is known.
	// Whoever is handed a Change owns one reference.
	Body   *Body
	Reason Reason
	// Seen is when the change was read off the wire.
	Seen   time.Time
	Ticket Ticket
	// Size is what Admit was asked for: about what the change takes in memory.
	Size int
	// Count is how many changes this one stands for; 0 and 1 both mean one.
	Count int
	// Listed says that the change came with a list, or was read back from the API server's history: it has no place in
	// the order of versions, and what holds for a list's items in [Feed] holds for it.
	Listed bool
	// Epoch and Version are those of the event's sequence. The far side sets them when the change is delivered.
	Epoch, Version uint64
	// Written is when the state was written, in seconds since 1970, as it tells; 0 where it does not. The encoder finds
	// it.
	Written int64
	// Follows says that a state of the object before this one is known, and Before is when that was written, as
	// Written.
	Follows bool
	Before  int64
	// Again, if not 0, is the number of a resync or a rewind: the event is a republished one.
	Again int64
}

// Wrote reports whether this change left a time at which its state tells that it was written, in seconds since 1970: it
// is newer than that of the state before, if there is one. Some writes leave none, and an older write's time must not
// stand in for theirs.
func (c *Change) Wrote(at int64) bool {
	return c.Op != Deleted && at != 0 && (!c.Follows || c.Before != 0 && at > c.Before)
}

// Feed takes over what a stream reads, in the order in which it was read.
type Feed interface {
	// Admit waits until size more bytes may be held, and cuts the ticket of the frame at version. It is called where
	// the frame comes off the wire, so that waiting stops the reading. What is listed has no place in the order of
	// versions: its version is empty. The caller owes exactly one Deliver for each ticket, unless ctx ends. The error
	// is ctx's.
	Admit(ctx context.Context, version string, size int) (Ticket, error)
	// Deliver hands over an admitted change and its body. It never blocks.
	Deliver(c Change)
}

// History is what the far side remembers of a stream, and is told of its progress.
type History interface {
	// Resume returns the version from which a watch loses nothing, and the objects known there. ok is false
	// where there is no such version: then the stream starts with a list. A version that is returned nevertheless is
	// one that the API server has shown before, to other selectors. It may be called again when a watch has ended:
	// known are then the objects as they have been delivered, and version is at most the one that was read last. With
	// each object stands whether it is so at version: of one that the broker refuses, what was delivered may be older.
	Resume() (version string, known iter.Seq2[Ident, bool], ok bool)
	// Note records progress in its place in the stream. SnapshotStarted and Gap return only when everything before
	// them has been published and they themselves have. Recovering returns when it is safe in the checkpoint. Listed
	// returns only when the list is published and its version is safe in the checkpoint, so that nothing that a watch
	// brings from there on can be lost any more. A Bookmark never blocks. The error is ctx's, or a [RewoundError] where
	// the list shows that the API server's history is not the one that was published.
	Note(ctx context.Context, p Progress) error
}

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
