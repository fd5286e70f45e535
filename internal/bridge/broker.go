// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"sync"
	"time"
)

// broker is how the broker is doing.
type broker struct {
	mu sync.Mutex
	// reached says that the broker was ready once; away since when it is not.
	reached bool
	away    time.Time
	// refusals counts the objects of which the broker takes nothing, refusal is why.
	refusals int
	refusal  error
	// retry is why something was handed to the broker again last.
	retry error
}

// observe takes note of whether the broker is ready. It is called once a second at least.
func (b *broker) observe(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil:
		b.reached, b.away = true, time.Time{}
	case b.away.IsZero():
		b.away = time.Now()
	}
}

// problem returns why nothing can be published, where now says that the broker is not ready and has not been for
// unreadyAfter, or never was; or why it takes nothing of some object.
func (b *broker) problem(now error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case now == nil:
		return b.refusal
	case b.reached && (b.away.IsZero() || time.Since(b.away) < unreadyAfter):
		return nil
	default:
		return now
	}
}

// blocked says that the broker takes nothing of one more object; unblocked, of one less.
func (b *broker) blocked(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refusals++
	b.refusal = err
}

func (b *broker) unblocked() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refusals--; b.refusals == 0 {
		b.refusal = nil
	}
}
