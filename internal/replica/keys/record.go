// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
)

// record is a row in memory, without what the target has. It has no pointers, so that the garbage collector passes over
// pages of it.
type record struct {
	position       uint64
	epoch, version uint64
	at             int64 // in milliseconds since 1970; 0 is none
	name           name
	// next is the row behind this one in its chain of the index, and has what the target has; 0 is none, 1 is the first.
	next, has int32
	origin    uint32
	told      uint32
	// part is where the oldest event is that is not handled; 0 where all are.
	part  uint32
	claim Claim
	step  uint8
	ends  uint8
	marks marks
}

// What marks of a row say.
// marks are facts that are true or false.
type marks uint8

func (m marks) has(mark marks) bool { return m&mark != 0 }

func (m *marks) set(mark marks, is bool) {
	if *m &^= mark; is {
		*m |= mark
	}
}

// The marks of a record.
const (
	// swept: the row has not changed since the last Sweep.
	swept marks = 1 << iota
	// young, leftOut and counted are members of [Desired].
	young
	leftOut
	counted
)

// The marks of a have.
const (
	// Accepted is a member of [Row], and the others are of [Actual].
	terminating marks = 1 << iota
	replaced
	ownsIgnored
	accepted
)

// have is what the target has of a row.
type have struct {
	epoch, version          uint64 // of what was applied
	resourceVersion, digest uint64
	uid                     uuid.UUID
	writtenFor              uint32
	owner                   Owner
	step                    uint8
	marks                   marks
}

// oddity is an identity that is no uuid and no number, as aggregated API servers may give.
type oddity struct{ uid, version string }

func (r *record) used() bool { return r.name.scope != 0 }

func (r *record) sequence() sequence.Sequence {
	return sequence.Sequence{Epoch: r.epoch, Version: r.version, Step: r.step}
}

func (r *record) desired() Desired {
	return Desired{
		Claim: r.claim, Position: r.position, Origin: r.origin, At: timeOf(r.at), Young: r.is(young),
		LeftOut: r.is(leftOut), Counted: r.is(counted),
		Sequence: r.sequence(),
	}
}

func (r *record) is(mark marks) bool { return r.marks.has(mark) }

func (r *record) mark(mark marks, is bool) { r.marks.set(mark, is) }

func (r *record) setDesired(d Desired) {
	r.claim, r.position, r.origin, r.at = d.Claim, d.Position, d.Origin, millis(d.At)
	r.epoch, r.version, r.step = d.Epoch, d.Version, d.Step
	r.mark(young, d.Young)
	r.mark(leftOut, d.LeftOut)
	r.mark(counted, d.Counted)
}

// untold reports whether an object that may exist was not told by the resync of a mark or a later one.
func (r *record) untold(mark uint32) bool {
	return r.used() && r.told < mark && r.claim != Gone && (r.has != 0 || r.claim.Exists())
}

func (h *have) applied() sequence.Sequence {
	return sequence.Sequence{Epoch: h.epoch, Version: h.version, Step: h.step}
}

// set sets what the target cluster has, and returns what there is no room for.
func (h *have) set(a Actual) (left oddity, odd bool) {
	*h = have{
		owner: a.Owner, writtenFor: a.Origin, digest: a.Digest,
		epoch: a.Applied.Epoch, version: a.Applied.Version, step: a.Applied.Step,
	}
	h.marks.set(terminating, a.Terminating)
	h.marks.set(replaced, a.Replaced)
	h.marks.set(ownsIgnored, a.OwnsIgnored)
	uid, err := uuid.Parse(a.UID)
	version, notNumber := strconv.ParseUint(a.Version, 10, 64)
	if err != nil || uid.String() != a.UID || notNumber != nil {
		return oddity{a.UID, a.Version}, true
	}
	h.uid, h.resourceVersion = uid, version
	return oddity{}, false
}

// actual returns what the target has, without its identity if that is odd.
func (h *have) actual() Actual {
	return Actual{
		Owner: h.owner, Terminating: h.marks.has(terminating), Replaced: h.marks.has(replaced),
		OwnsIgnored: h.marks.has(ownsIgnored), Origin: h.writtenFor, Digest: h.digest, Applied: h.applied(),
		UID: h.uid.String(), Version: strconv.FormatUint(h.resourceVersion, 10),
	}
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

// pages are values in pages. A slice of them all would be copied as it grows, and take twice the memory meanwhile.
type pages[T any] struct {
	pages []*[1 << pageBits]T
	n     int32
	free  []int32
}

const pageBits = 9

func (p *pages[T]) at(i int32) *T { return &p.pages[i>>pageBits][i&(1<<pageBits-1)] }

// add returns the place of one more value.
func (p *pages[T]) add() int32 {
	if n := len(p.free); n > 0 {
		i := p.free[n-1]
		p.free = p.free[:n-1]
		return i
	}
	if int(p.n) == len(p.pages)<<pageBits {
		p.pages = append(p.pages, new([1 << pageBits]T))
	}
	p.n++
	return p.n - 1
}

func (p *pages[T]) remove(i int32) {
	clear(p.pages[i>>pageBits][i&(1<<pageBits-1):][:1])
	p.free = append(p.free, i)
}

func (p *pages[T]) len() int { return int(p.n) - len(p.free) }
