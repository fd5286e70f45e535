// SPDX-License-Identifier: Apache-2.0

package health

import (
	"sync"
	"time"
)

// rateSamples are kept; one is taken about once a second.
const rateSamples = 10

// Rate is how often something has happened lately, from samples of how often it has in all: what happens costs nothing.
// The zero Rate has no sample. Its methods may be called by several goroutines at a time.
type Rate struct {
	mu      sync.Mutex
	samples [rateSamples]sample
	// next is where the next sample goes, taken how many there were.
	next, taken int
	changed     time.Time
}

type sample struct {
	at    time.Time
	total float64
}

// Sample takes a sample.
func (r *Rate) Sample(total float64, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken > 0 && total != r.samples[(r.next+rateSamples-1)%rateSamples].total {
		r.changed = now
	}
	r.samples[r.next] = sample{now, total}
	r.next = (r.next + 1) % rateSamples
	r.taken++
}

// PerSecond returns the average since the oldest sample, over a second at least; 0 without a sample.
func (r *Rate) PerSecond(total float64, now time.Time) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken == 0 {
		return 0
	}
	oldest := r.samples[0]
	if r.taken > rateSamples {
		oldest = r.samples[r.next]
	}
	return max(total-oldest.total, 0) / max(now.Sub(oldest.at).Seconds(), 1)
}

// Last returns when the total was seen to grow last; zero if it was not.
func (r *Rate) Last() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}
