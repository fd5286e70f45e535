// SPDX-License-Identifier: Apache-2.0

package config

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
