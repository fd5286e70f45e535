// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config/rules"
)

type (
	// Operation is what happened to an object.
	Operation string
	// Delivery says whether deltas of one object may be folded.
	Delivery string
	// Payload is what the data of an event is.
	Payload string
	// OnFilterError says what becomes of a change for which the filter cannot be evaluated.
	OnFilterError string
	// Snapshot says whether what exists at the first start is published.
	Snapshot string
	// OnReject says what follows when the broker refuses an event for good.
	OnReject string
	// Oversize says what becomes of an event that is too large for the broker.
	Oversize string
	// Mode is the CloudEvents content mode.
	Mode string
	// Profile is whose types, sources and subjects events have.
	Profile string
	// Part is a part of an object that is removed unless it is kept.
	Part string
	// Level is the least severe level that is logged.
	Level string
	// Format is the form of the log; auto is text on a terminal and JSON otherwise.
	Format string
	// Compression is how batches of a Kafka topic are compressed.
	Compression string
	// Mechanism is how a Kafka broker is told who we are.
	Mechanism string
	// Existing says what becomes of an object that a replica finds and has not written.
	Existing string
	// Conflicts says who has a field that another manager owns.
	Conflicts string
	// Owned says what becomes of an object that has a controlling owner.
	Owned string
	// Deselected says what becomes of an object that exists and is not selected any more.
	Deselected string
	// OnEpoch says what follows when the source's etcd was restored, or its cluster rebuilt.
	OnEpoch string
	// Immutable says what follows when a change is in a field that cannot change.
	Immutable string
)

// Values of these types.
const (
	Added   Operation = "added"
	Updated Operation = "updated"
	Deleted Operation = "deleted"

	Every  Delivery = "every"
	Latest Delivery = "latest"

	PayloadObject     Payload = "object"
	PayloadMetadata   Payload = "metadata"
	PayloadChange     Payload = "change"
	PayloadMergePatch Payload = "merge-patch"
	PayloadJSONPatch  Payload = "json-patch"

	OnFilterErrorPublish OnFilterError = "publish"
	OnFilterErrorDrop    OnFilterError = "drop"

	SnapshotInitial Snapshot = "initial"
	SnapshotNever   Snapshot = "never"

	OnRejectPublish OnReject = "publish"
	OnRejectStop    OnReject = "stop"

	OversizeReject   Oversize = "reject"
	OversizeMetadata Oversize = "metadata"
	OversizeStore    Oversize = "store"

	Binary     Mode = "binary"
	Structured Mode = "structured"

	ProfileOwn     Profile = "kube-eventbridge"
	ProfileKnative Profile = "knative"

	ManagedFields Part = "managedFields"
	LastApplied   Part = "lastApplied"

	LevelDebug Level = "debug"
	LevelInfo  Level = "info"

	FormatAuto Format = "auto"
	FormatText Format = "text"
	FormatJSON Format = "json"

	None Compression = "none"
	Zstd Compression = "zstd"

	Plain       Mechanism = "plain"
	ScramSHA256 Mechanism = "scram-sha-256"
	ScramSHA512 Mechanism = "scram-sha-512"
	OAuthBearer Mechanism = "oauthbearer"

	ExistingRefuse    Existing = "refuse"
	ExistingAdopt     Existing = "adopt"
	ExistingOverwrite Existing = "overwrite"

	ConflictsYield Conflicts = "yield"
	ConflictsForce Conflicts = "force"

	OwnedSkip  Owned = "skip"
	OwnedDrop  Owned = "drop"
	OwnedRemap Owned = "remap"

	DeselectedKeep   Deselected = "keep"
	DeselectedDelete Deselected = "delete"

	OnEpochHold   OnEpoch = "hold"
	OnEpochFollow OnEpoch = "follow"

	ImmutablePark     Immutable = "park"
	ImmutableRecreate Immutable = "recreate"
)

// patch reports whether the payload says nothing to who does not have the event before.
func (p Payload) patch() bool { return p == PayloadMergePatch || p == PayloadJSONPatch }

// Size is a number of bytes, written as Kubernetes writes quantities: 256Mi, 1G, 1048576.
type Size int64

const sizeForm = "write a number of bytes as Kubernetes does, such as 256Mi, 1G or 1048576"

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(text []byte) error {
	q, err := resource.ParseQuantity(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a size; %s", text, sizeForm)
	}
	n := q.Value() // rounded, and capped
	if q.CmpInt64(n) != 0 || n < 0 {
		return fmt.Errorf("%q is not a whole, positive number of bytes; %s", text, sizeForm)
	}
	*s = Size(n)
	return nil
}

// String returns the size as Kubernetes writes it.
func (s Size) String() string { return resource.NewQuantity(int64(s), resource.BinarySI).String() }

// Limit is a number of objects, or a part of them in percent, written as 50 or 20%.
type Limit struct {
	Number  int
	Percent bool
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Limit) UnmarshalText(text []byte) error {
	digits, percent := strings.CutSuffix(string(text), "%")
	n, err := strconv.ParseUint(digits, 10, 31)
	switch {
	case err != nil:
		return rules.ErrNot
	case percent && n > 100:
		return fmt.Errorf("%s is out of range; write 0%% to 100%%", text)
	}
	*l = Limit{int(n), percent}
	return nil
}

// String returns the limit as it is written in the file.
func (l Limit) String() string {
	if l.Percent {
		return strconv.Itoa(l.Number) + "%"
	}
	return strconv.Itoa(l.Number)
}
