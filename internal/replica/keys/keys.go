// SPDX-License-Identifier: Apache-2.0

// Package keys holds what a replica knows of each object: what the log says of it, and how the target cluster has it.
//
// A key takes 64 bytes, its name, and 56 bytes where the target has the object. Bodies are not kept: the log has them.
package keys

import (
	"hash/fnv"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
)

// Key names an object of the source cluster.
type Key struct {
	// Resource is the number that the replica has given to the resource.
	Resource uint16
	// Namespace is empty for a cluster-scoped object.
	Namespace, Name string
}

// String returns namespace and name, for a person.
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// ID stands for a key as long as its row exists.
type ID int32

// Claim is what the log says of an object.
type Claim uint8

// The claims.
const (
	// Unknown: the log has no event of the object.
	Unknown Claim = iota
	// Whole: the object exists, and the log has all of it.
	Whole
	// Redacted: it exists, and values in its newest event are replaced.
	Redacted
	// Reduced: it exists, and its newest event has not the whole of it, because it is too large or only metadata is
	// published.
	Reduced
	// Rejected: it exists, and the broker has refused its newest event.
	Rejected
	// Deselected: it exists, and is not published any more.
	Deselected
	// Gone: the object was deleted, or a complete resync did not tell it.
	Gone
)

// Exists reports whether the object exists and is published.
func (c Claim) Exists() bool { return c >= Whole && c <= Rejected }

// Desired is what the log says of an object: its newest event.
type Desired struct {
	Claim Claim
	sequence.Sequence
	// Position is where the event is in the log.
	Position uint64
	// Origin stands for the uid of the object in the source cluster.
	Origin uint32
	// At is when the event was recorded, in the time of the log.
	At time.Time
	// Young says of an end that the object was too young for it to count. LeftOut says that the replica does not write
	// the object: its end counts only if the target has one of ours all the same. Then it is Counted.
	Young, LeftOut, Counted bool
}

// Weighs reports whether an end counts for the limit of deletes.
func (d Desired) Weighs() bool { return !d.Young && (!d.LeftOut || d.Counted) }

// Owner says whose an object of the target cluster is.
type Owner uint8

// The owners.
const (
	// Absent: the target has no such object that bears the replica's label.
	Absent Owner = iota
	// Ours: label and origin say that the replica has written it.
	Ours
	// Detached: it bears the label or the origin, but not both.
	Detached
)

// Actual is how the target cluster has an object.
type Actual struct {
	Owner Owner
	// Terminating: its deletion has begun. Replaced: managedFields have fields that the replica has written by PUT or
	// POST. OwnsIgnored: it owns fields that it does not write any more, as the target's.
	Terminating, Replaced, OwnsIgnored bool
	UID                                string
	Version                            string
	// Applied is the sequence of what the replica has written last.
	Applied sequence.Sequence
	// Origin stands for the uid in the source cluster that it was written for.
	Origin uint32
	// Digest stands for the content.
	Digest uint64
}

// Row is what is known of a key.
type Row struct {
	Key
	Desired Desired
	Actual  Actual
	// Accepted: the content of Actual is right, as far as the replica owns it.
	Accepted bool
	// Ends changes whenever Actual becomes absent.
	Ends uint8
}

// OriginOf stands for a uid of the source.
func OriginOf(uid string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(uid))
	return h.Sum32()
}
