// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
)

// record is a row in memory. What it has no room for is in Table.odd.
type record struct {
	name                             string // namespace/name, or name
	position                         uint64
	version, epoch                   uint64
	appliedVersion, appliedEpoch     uint64
	resourceVersion, digest          uint64
	uid                              uuid.UUID
	at                               int64 // in milliseconds since 1970; 0 is none
	origin, writtenFor, told         uint32
	resource                         uint16
	claim                            Claim
	owner                            Owner
	step, appliedStep, ends          uint8
	used, terminating, accepted, odd bool
}

// oddity is an identity that is no uuid and no number, as aggregated API servers may give.
type oddity struct{ uid, version string }

func (r *record) key() Key {
	namespace, name, found := strings.Cut(r.name, "/")
	if !found {
		return Key{Resource: r.resource, Name: r.name}
	}
	return Key{Resource: r.resource, Namespace: namespace, Name: name}
}

func (r *record) desired() Desired {
	return Desired{
		Claim: r.claim, Position: r.position, Origin: r.origin, At: timeOf(r.at),
		Sequence: sequence.Sequence{Epoch: r.epoch, Version: r.version, Step: r.step},
	}
}

// untold reports whether an object that may exist was not told by the resync of a mark or a later one.
func (r *record) untold(mark uint32) bool {
	return r.used && r.told < mark && r.claim != Gone && (r.owner != Absent || r.claim.Exists())
}

func (r *record) setDesired(d Desired) {
	r.claim, r.position, r.origin, r.at = d.Claim, d.Position, d.Origin, millis(d.At)
	r.epoch, r.version, r.step = d.Epoch, d.Version, d.Step
}

// setActual sets what the target cluster has, and returns what the record has no room for.
func (r *record) setActual(a Actual) (left oddity, odd bool) {
	r.owner, r.terminating, r.writtenFor, r.digest = a.Owner, a.Terminating, a.Origin, a.Digest
	r.appliedEpoch, r.appliedVersion, r.appliedStep = a.Applied.Epoch, a.Applied.Version, a.Applied.Step
	r.uid, r.resourceVersion, r.odd = uuid.UUID{}, 0, false
	if a.Owner == Absent {
		return oddity{}, false
	}
	uid, err := uuid.Parse(a.UID)
	version, notNumber := strconv.ParseUint(a.Version, 10, 64)
	if err != nil || uid.String() != a.UID || notNumber != nil {
		r.odd = true
		return oddity{a.UID, a.Version}, true
	}
	r.uid, r.resourceVersion = uid, version
	return oddity{}, false
}

func (r *record) actual() Actual {
	a := Actual{
		Owner: r.owner, Terminating: r.terminating, Origin: r.writtenFor, Digest: r.digest,
		Applied: sequence.Sequence{Epoch: r.appliedEpoch, Version: r.appliedVersion, Step: r.appliedStep},
	}
	if r.owner != Absent && !r.odd {
		a.UID, a.Version = r.uid.String(), strconv.FormatUint(r.resourceVersion, 10)
	}
	return a
}

func nameOf(k Key) string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

func timeOf(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis).UTC()
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
