// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/plan"
)

// The reasons that an API server gives, besides those of package plan.
const (
	NoNamespace plan.Reason = "no-namespace"
	NoResource  plan.Reason = "no-resource"
	NoOwner     plan.Reason = "no-owner"
	Exists      plan.Reason = "exists"
	Conflict    plan.Reason = "conflict"
	Immutable   plan.Reason = "immutable"
	Invalid     plan.Reason = "invalid"
	Denied      plan.Reason = "denied"
	Forbidden   plan.Reason = "forbidden"
	Failed      plan.Reason = "failed"
	LeftOut     plan.Reason = "left-out"
	Circular    plan.Reason = "circular" // both clusters have a copy, and neither has an original
	TooLarge    plan.Reason = "too-large"
	Contested   plan.Reason = "contested"
	HeldDelete  plan.Reason = "held"
	NotEmpty    plan.Reason = "not-empty"  // it is to be deleted, and others have objects in it
	HeldEpoch   plan.Reason = "held-epoch" // of a comparison: a replica that runs tells it of all at once
	NotListed   plan.Reason = "not-listed" // of a comparison too: the target does not let its objects be listed
	BodyMissing plan.Reason = "body-missing"
	Status      plan.Reason = "status" // the API server refuses the status
)

// Intended reports whether objects wait for a reason because the file, or a person who has detached them, wants it so.
func Intended(r plan.Reason) bool {
	switch r {
	case LeftOut, plan.KeptDeselected, plan.DeletesDisabled, plan.DetachedObject:
		return true
	default:
		return false
	}
}

// Key says why a key waits.
type Key struct {
	plan.Reason
	// Detail says more, for a person; it is empty of some where very many wait.
	Detail string
	Since  time.Time
}

// Parked knows the keys that wait. It takes 20 bytes for each, because all keys may wait. It is safe for concurrent
// use.
type Parked struct {
	mu  sync.Mutex
	all map[keys.ID]parked
	// reasons has those that there are, and details what more is to be said of some keys.
	reasons []plan.Reason
	details map[keys.ID]string
}

// parked is why and since when a key waits.
type parked struct {
	since  uint32 // in seconds since 1970
	reason uint8  // the number in Parked.reasons
}

// mostDetails is of how many keys the detail is kept.
const mostDetails = 10_000

// NewParked returns one that knows no key.
func NewParked() *Parked {
	return &Parked{all: make(map[keys.ID]parked), details: make(map[keys.ID]string)}
}

// Put parks a key; what it waited for already keeps its time.
func (p *Parked) Put(id keys.ID, why plan.Reason, detail string, now time.Time) (isNew bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	number := slices.Index(p.reasons, why)
	if number < 0 {
		number = len(p.reasons)
		p.reasons = append(p.reasons, why)
	}
	before, found := p.all[id]
	isNew = !found || before.reason != uint8(number) //nolint:gosec // few exist
	if isNew {
		p.all[id] = parked{uint32(now.Unix()), uint8(number)} //nolint:gosec // until 2106
	}
	delete(p.details, id)
	if detail != "" && len(p.details) < mostDetails {
		p.details[id] = detail
	}
	return isNew
}

// Reason returns why a key waits; empty where it does not.
func (p *Parked) Reason(id keys.ID) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k, found := p.all[id]; found {
		return string(p.reasons[k.reason])
	}
	return ""
}

// Remove says that a key does not wait any more.
func (p *Parked) Remove(id keys.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, found := p.all[id]; !found {
		return
	}
	delete(p.details, id)
	if delete(p.all, id); len(p.all) == 0 {
		p.all = make(map[keys.ID]parked) // a map does not give back what it had room for
	}
}

// Waiting returns the keys that wait for a reason.
func (p *Parked) Waiting(why plan.Reason) (ids []keys.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, k := range p.all {
		if p.reasons[k.reason] == why {
			ids = append(ids, id)
		}
	}
	return ids
}

// ByReason counts the keys.
func (p *Parked) ByReason() map[plan.Reason]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := make(map[plan.Reason]int)
	for _, k := range p.all {
		counts[p.reasons[k.reason]]++
	}
	return counts
}

// Oldest returns, of each reason, the keys that have waited for longest, at most so many.
func (p *Parked) Oldest(most int) map[keys.ID]Key {
	p.mu.Lock()
	defer p.mu.Unlock()
	byReason := make([][]keys.ID, len(p.reasons))
	older := func(a, b keys.ID) int { return cmp.Or(cmp.Compare(p.all[a].since, p.all[b].since), cmp.Compare(a, b)) }
	for id, k := range p.all {
		first := byReason[k.reason]
		if at, _ := slices.BinarySearchFunc(first, id, older); at < most {
			first = slices.Insert(first, at, id)
			byReason[k.reason] = first[:min(len(first), most)]
		}
	}
	oldest := make(map[keys.ID]Key)
	for number, first := range byReason {
		for _, id := range first {
			oldest[id] = Key{p.reasons[number], p.details[id], time.Unix(int64(p.all[id].since), 0).UTC()}
		}
	}
	return oldest
}
