// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"maps"
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
	TooLarge    plan.Reason = "too-large"
	Contested   plan.Reason = "contested"
	HeldDelete  plan.Reason = "held"
	HeldEpoch   plan.Reason = "held-epoch" // of a comparison: a replica that runs tells it of all at once
	NotListed   plan.Reason = "not-listed" // of a comparison too: the target does not let its objects be listed
	BodyMissing plan.Reason = "body-missing"
	Status      plan.Reason = "status" // the API server refuses the status
)

// Key says why a key waits.
type Key struct {
	plan.Reason
	// Detail says more, for a person.
	Detail string
	Since  time.Time
}

// Parked knows the keys that wait. It is safe for concurrent use.
type Parked struct {
	mu  sync.Mutex
	all map[keys.ID]Key
}

// NewParked returns one that knows no key.
func NewParked() *Parked { return &Parked{all: make(map[keys.ID]Key)} }

// Put parks a key; what it waited for already keeps its time.
func (p *Parked) Put(id keys.ID, why plan.Reason, detail string, now time.Time) (isNew bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, found := p.all[id]
	if found && before.Reason == why {
		now = before.Since
	}
	p.all[id] = Key{why, detail, now}
	return !found || before.Reason != why
}

// Reason returns why a key waits; empty where it does not.
func (p *Parked) Reason(id keys.ID) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.all[id].Reason)
}

// Remove says that a key does not wait any more.
func (p *Parked) Remove(id keys.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, id)
}

// Waiting returns the keys that wait for one of the reasons.
func (p *Parked) Waiting(reasons ...plan.Reason) (ids []keys.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, k := range p.all {
		for _, reason := range reasons {
			if k.Reason == reason {
				ids = append(ids, id)
			}
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
		counts[k.Reason]++
	}
	return counts
}

// List returns a copy.
func (p *Parked) List() map[keys.ID]Key {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.all)
}
