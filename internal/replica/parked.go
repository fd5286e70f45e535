// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"maps"
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/plan"
)

// The reasons that an API server gives, besides those of package plan.
const (
	noNamespace plan.Reason = "no-namespace"
	noResource  plan.Reason = "no-resource"
	noOwner     plan.Reason = "no-owner"
	notOurs     plan.Reason = "exists"
	ownedFields plan.Reason = "conflict"
	immutable   plan.Reason = "immutable"
	invalid     plan.Reason = "invalid"
	denied      plan.Reason = "denied"
	forbidden   plan.Reason = "forbidden"
	failed      plan.Reason = "failed"
	skipped     plan.Reason = "left-out"
	tooLarge    plan.Reason = "too-large"
	contested   plan.Reason = "contested"
	heldDelete  plan.Reason = "held"
	heldEpoch   plan.Reason = "held-epoch" // of a comparison: a replica that runs tells it of all at once
	bodyMissing plan.Reason = "body-missing"
)

// parkedKey says why a key waits.
type parkedKey struct {
	plan.Reason
	// Detail says more, for a person.
	Detail string
	Since  time.Time
}

// parked knows the keys that wait. It is safe for concurrent use.
type parked struct {
	mu  sync.Mutex
	all map[keys.ID]parkedKey
}

func newParked() *parked { return &parked{all: make(map[keys.ID]parkedKey)} }

// put parks a key; what it waited for already keeps its time.
func (p *parked) put(id keys.ID, why plan.Reason, detail string, now time.Time) (isNew bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, found := p.all[id]
	if found && before.Reason == why {
		now = before.Since
	}
	p.all[id] = parkedKey{why, detail, now}
	return !found || before.Reason != why
}

// reason returns why a key waits; empty where it does not.
func (p *parked) reason(id keys.ID) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.all[id].Reason)
}

// remove says that a key does not wait any more.
func (p *parked) remove(id keys.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, id)
}

// waiting returns the keys that wait for one of the reasons.
func (p *parked) waiting(reasons ...plan.Reason) (ids []keys.ID) {
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

// byReason counts the keys.
func (p *parked) byReason() map[plan.Reason]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := make(map[plan.Reason]int)
	for _, k := range p.all {
		counts[k.Reason]++
	}
	return counts
}

// list returns a copy.
func (p *parked) list() map[keys.ID]parkedKey {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.all)
}
