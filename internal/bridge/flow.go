// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"sync"
	"time"
)

// flowSamples are kept of each stream; one is taken about once a second.
const flowSamples = 10

// flow tells how often something happened lately, from samples of how often it has in all: what happens costs nothing.
type flow struct {
	mu      sync.Mutex
	samples [flowSamples]sample
	// next is where the next sample goes, taken how many there were.
	next, taken int
	changed     time.Time
}

type sample struct {
	at    time.Time
	total float64
}

// observe takes a sample.
func (r *flow) observe(total float64, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken > 0 && total != r.samples[(r.next+flowSamples-1)%flowSamples].total {
		r.changed = now
	}
	r.samples[r.next] = sample{now, total}
	r.next = (r.next + 1) % flowSamples
	r.taken++
}

// perSecond returns the average since the oldest sample, over a second at least.
func (r *flow) perSecond(total float64, now time.Time) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken == 0 {
		return 0
	}
	oldest := r.samples[0]
	if r.taken > flowSamples {
		oldest = r.samples[r.next]
	}
	return max(total-oldest.total, 0) / max(now.Sub(oldest.at).Seconds(), 1)
}

// last returns when the total was seen to grow last.
func (r *flow) last() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// sample has every stream take one.
func (p *session) sample(now time.Time) {
	for _, s := range p.opened() {
		s.flow.observe(s.metrics.total(), now)
	}
}
