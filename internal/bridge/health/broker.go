// SPDX-License-Identifier: Apache-2.0

package health

import (
	"sync"
	"time"
)

// Broker is how a broker is doing. The zero Broker was never reached. Its methods may be called by several goroutines
// at a time.
type Broker struct {
	mu sync.Mutex
	// reached says that the broker was ready once; away since when it is not, and back when it was again.
	reached    bool
	away, back time.Time
	// refused counts the objects of which the broker takes nothing, refusal is why.
	refused int
	refusal error
}

// BrokerState is how a broker is doing at a moment.
type BrokerState struct {
	// Err is why it cannot be used now, and Reached says that it could be once. Nil: it can.
	Err     error
	Reached bool
	// Refused is why something has to be handed to it again, although it can be reached; nil where there is nothing of
	// the kind.
	Refused error
	// Since is since when Err or Refused hold.
	Since time.Time
	// Blocked is why it takes nothing at all of some object.
	Blocked error
}

// Observe takes note of why the broker is not ready, or that it is. It has to be called once a second at least.
func (b *Broker) Observe(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.observe(err)
}

func (b *Broker) observe(err error) {
	switch {
	case err == nil:
		if !b.away.IsZero() {
			b.back = time.Now()
		}
		b.reached, b.away = true, time.Time{}
	case b.away.IsZero():
		b.away = time.Now()
	}
}

// Problem returns why nothing can be published, where now says that the broker is not ready, and it has not been for
// UnreadyAfter or never was; or why it takes nothing of some object.
func (b *Broker) Problem(now error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.observe(now)
	switch {
	case now == nil:
		return b.refusal
	case b.reached && time.Since(b.away) < UnreadyAfter:
		return nil
	default:
		return now
	}
}

// Returned returns when the broker was ready again after it was not; zero if it always was.
func (b *Broker) Returned() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.back
}

// Block says that the broker takes nothing of one more object, and why.
func (b *Broker) Block(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused++
	b.refusal = why
}

// Unblock says that the broker takes what it has refused of one object.
func (b *Broker) Unblock() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refused--; b.refused == 0 {
		b.refusal = nil
	}
}

// State returns how the broker is doing; now is why it is not ready.
func (b *Broker) State(now error) BrokerState {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.observe(now)
	return BrokerState{Err: now, Since: b.away, Reached: b.reached, Blocked: b.refusal}
}
