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
	name     string // namespace/name, or name
	want     want
	have     have
	told     uint32
	resource uint16
	ends     uint8
	used     bool
	accepted bool
	odd      bool
}

// want is what the log says.
type want struct {
	position       uint64
	epoch, version uint64
	at             int64 // in milliseconds since 1970; 0 is none
	origin         uint32
	claim          Claim
	step           uint8
}

// have is what the target has.
type have struct {
	epoch, version          uint64 // of what was applied
	resourceVersion, digest uint64
	uid                     uuid.UUID
	writtenFor              uint32
	owner                   Owner
	step                    uint8
	terminating             bool
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
		Claim: r.want.claim, Position: r.want.position, Origin: r.want.origin, At: timeOf(r.want.at),
		Sequence: sequence.Sequence{Epoch: r.want.epoch, Version: r.want.version, Step: r.want.step},
	}
}

// untold reports whether an object that may exist was not told by the resync of a mark or a later one.
func (r *record) untold(mark uint32) bool {
	return r.used && r.told < mark && r.want.claim != Gone && (r.have.owner != Absent || r.want.claim.Exists())
}

func (r *record) setDesired(d Desired) {
	r.want.claim, r.want.position, r.want.origin, r.want.at = d.Claim, d.Position, d.Origin, millis(d.At)
	r.want.epoch, r.want.version, r.want.step = d.Epoch, d.Version, d.Step
}

// setActual sets what the target cluster has, and returns what the record has no room for.
func (r *record) setActual(a Actual) (left oddity, odd bool) {
	r.have.owner, r.have.terminating, r.have.writtenFor, r.have.digest = a.Owner, a.Terminating, a.Origin, a.Digest
	r.have.epoch, r.have.version, r.have.step = a.Applied.Epoch, a.Applied.Version, a.Applied.Step
	r.have.uid, r.have.resourceVersion, r.odd = uuid.UUID{}, 0, false
	if a.Owner == Absent {
		return oddity{}, false
	}
	uid, err := uuid.Parse(a.UID)
	version, notNumber := strconv.ParseUint(a.Version, 10, 64)
	if err != nil || uid.String() != a.UID || notNumber != nil {
		r.odd = true
		return oddity{a.UID, a.Version}, true
	}
	r.have.uid, r.have.resourceVersion = uid, version
	return oddity{}, false
}

func (r *record) actual() Actual {
	a := Actual{
		Owner: r.have.owner, Terminating: r.have.terminating, Origin: r.have.writtenFor, Digest: r.have.digest,
		Applied: sequence.Sequence{Epoch: r.have.epoch, Version: r.have.version, Step: r.have.step},
	}
	if r.have.owner != Absent && !r.odd {
		a.UID, a.Version = r.have.uid.String(), strconv.FormatUint(r.have.resourceVersion, 10)
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

// rows are records in pages. A slice of them all would be copied as it grows, and take twice the memory meanwhile.
type rows struct {
	pages []*page
	n     int
}

type page [1 << pageBits]record

const pageBits = 9

func (r *rows) at(id ID) *record { return &r.pages[id>>pageBits][id&(1<<pageBits-1)] }

func (r *rows) add(next record) {
	if r.n == len(r.pages)<<pageBits {
		r.pages = append(r.pages, new(page))
	}
	r.n++
	*r.at(ID(r.n - 1)) = next //nolint:gosec // memory bounds it
}
