// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// Broker is how the broker is doing.
type Broker struct {
	health.Broker
	Retrier *sink.Retrier

	config  *Config
	refusal atomic.Pointer[refusal]
	// saying limits how often it is said that the broker refuses something.
	saying rate.Sometimes
}

// refusal is what the broker has refused for good, and has accepted nothing since.
type refusal struct {
	since time.Time
	// object is the first one, and several says that there were others.
	object  string
	several bool
	last    error
}

// accepted takes note that the broker has accepted a message.
func (b *Broker) accepted() {
	if b.refusal.Load() != nil {
		b.refusal.Store(nil)
	}
}

// refused takes note that the broker takes nothing of an object.
func (b *Broker) refused(object string, err error) {
	r := refusal{since: time.Now(), object: object}
	if before := b.refusal.Load(); before != nil {
		r = *before
	}
	r.several, r.last = r.several || r.object != object, err
	b.refusal.Store(&r)
}

// Failing returns since when a message fails, and why. Without such a message it returns since when the broker refuses
// all that changes: it has refused several objects, and has accepted nothing since. One object that is refused is no
// failure of the broker, and neither is one that is tried again. The error is nil where there is none.
func (b *Broker) Failing() (since time.Time, err error) {
	if since, err = b.Retrier.Failing(); err != nil {
		return since, err
	}
	if r := b.refusal.Load(); r != nil && r.several && b.config.Refused.Load() > 0 {
		return r.since, r.last
	}
	return time.Time{}, nil
}

// Refusing returns why the broker refuses a message although it can be reached, and since when. The error is nil if it
// has not done so for health.UnreadyAfter.
func (b *Broker) Refusing() (since time.Time, err error) {
	ready := b.config.Sink.Ready()
	b.Observe(ready)
	since, err = b.Failing()
	if back := b.Returned(); since.Before(back) {
		since = back // what failed before failed for another reason
	}
	if ready != nil || time.Since(since) < health.UnreadyAfter {
		err = nil
	}
	return since, err
}

// Takes reports whether the broker can be reached, and takes what it is handed.
func (b *Broker) Takes() bool {
	_, refused := b.Refusing()
	return refused == nil && b.config.Sink.Ready() == nil
}

// SayRefused says in the log, once in a while, that the broker can be reached and refuses something.
func (b *Broker) SayRefused(cause error) {
	b.saying.Do(func() {
		since, refused := b.Refusing()
		if refused != nil {
			b.config.Log.Warn("the broker answers, and refuses what is published", "since", since.UTC().Format(time.RFC3339),
				"err", cause)
		}
	})
}
