// SPDX-License-Identifier: Apache-2.0

package config

// Operation is what happened to an object.
type Operation string

// The operations.
const (
	Added   Operation = "added"
	Updated Operation = "updated"
	Deleted Operation = "deleted"
)

func (Operation) choices() choices { return choices{now: []string{"added", "updated", "deleted"}} }

// Delivery says whether deltas of one object may be folded.
type Delivery string

// The deliveries.
const (
	Every  Delivery = "every"
	Latest Delivery = "latest"
)

func (Delivery) choices() choices { return choices{now: []string{"every", "latest"}} }

// Payload is what the data of an event is.
type Payload string

// The payloads.
const (
	PayloadObject   Payload = "object"
	PayloadMetadata Payload = "metadata"
	// The rest is made from what the log had before.
	PayloadChange     Payload = "change"
	PayloadMergePatch Payload = "merge-patch"
	PayloadJSONPatch  Payload = "json-patch"
)

func (Payload) choices() choices {
	return choices{now: []string{"object", "metadata", "change", "merge-patch", "json-patch"}}
}

// patch reports whether the payload says nothing to who does not have the event before.
func (p Payload) patch() bool { return p == PayloadMergePatch || p == PayloadJSONPatch }

// OnFilterError says what becomes of a change for which the filter cannot be evaluated.
type OnFilterError string

// What may become of it.
const (
	OnFilterErrorPublish OnFilterError = "publish"
	OnFilterErrorDrop    OnFilterError = "drop"
)

func (OnFilterError) choices() choices { return choices{now: []string{"publish", "drop"}} }

// Snapshot says whether what exists at the first start is published.
type Snapshot string

// The snapshots.
const (
	SnapshotInitial Snapshot = "initial"
	SnapshotNever   Snapshot = "never"
)

func (Snapshot) choices() choices { return choices{now: []string{"initial", "never"}} }

// OnReject says what follows when the broker refuses an event for good.
type OnReject string

// What may follow. OnRejectPublish puts a rejection in the event's place, OnRejectStop ends the pipeline before it.
const (
	OnRejectPublish OnReject = "publish"
	OnRejectStop    OnReject = "stop"
)

func (OnReject) choices() choices { return choices{now: []string{"publish", "stop"}} }

// Oversize says what becomes of an event that is too large for the broker.
type Oversize string

// What may become of it: a rejection, the event with the object's metadata alone, or that and the whole data in the
// object store of a NATS server.
const (
	OversizeReject   Oversize = "reject"
	OversizeMetadata Oversize = "metadata"
	OversizeStore    Oversize = "store"
)

func (Oversize) choices() choices { return choices{now: []string{"reject", "metadata", "store"}} }

// Mode is the CloudEvents content mode.
type Mode string

// The content modes.
const (
	Binary     Mode = "binary"
	Structured Mode = "structured"
)

func (Mode) choices() choices { return choices{now: []string{"binary", "structured"}} }

// Profile is whose types, sources and subjects events have.
type Profile string

// The profiles.
const (
	ProfileOwn     Profile = "kube-eventbridge"
	ProfileKnative Profile = "knative"
)

func (Profile) choices() choices { return choices{now: []string{"kube-eventbridge", "knative"}} }

// Part is a part of an object that is removed unless it is asked for.
type Part string

// The parts.
const (
	ManagedFields Part = "managedFields"
	LastApplied   Part = "lastApplied"
)

func (Part) choices() choices {
	return choices{now: []string{"managedFields", "lastApplied"}}
}

// Level is the least severe level that is logged.
type Level string

// The levels.
const (
	LevelDebug Level = "debug"
	LevelInfo  Level = "info"
	LevelWarn  Level = "warn"
	LevelError Level = "error"
)

func (Level) choices() choices { return choices{now: []string{"debug", "info", "warn", "error"}} }

// Format is the form of the log.
type Format string

// The formats. FormatAuto is text on a terminal and JSON otherwise.
const (
	FormatAuto Format = "auto"
	FormatText Format = "text"
	FormatJSON Format = "json"
)

func (Format) choices() choices { return choices{now: []string{"auto", "text", "json"}} }

// choices are the values of an enumeration.
type choices struct{ now []string }

type enum interface {
	~string
	choices() choices
}

// Compression is how batches of a Kafka topic are compressed.
type Compression string

// The compressions.
const (
	None   Compression = "none"
	Gzip   Compression = "gzip"
	Snappy Compression = "snappy"
	LZ4    Compression = "lz4"
	Zstd   Compression = "zstd"
)

func (Compression) choices() choices {
	return choices{now: []string{"none", "gzip", "snappy", "lz4", "zstd"}}
}

// Mechanism is how a Kafka broker is told who we are.
type Mechanism string

// The mechanisms.
const (
	Plain       Mechanism = "plain"
	ScramSHA256 Mechanism = "scram-sha-256"
	ScramSHA512 Mechanism = "scram-sha-512"
	OAuthBearer Mechanism = "oauthbearer"
)

func (Mechanism) choices() choices {
	return choices{now: []string{"plain", "scram-sha-256", "scram-sha-512", "oauthbearer"}}
}
