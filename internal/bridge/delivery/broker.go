// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// Broker is how the broker is doing.
type Broker struct {
	health.Broker
	Retrier *sink.Retrier

	config *Config
	// saying limits how often it is said that the broker refuses something.
	saying rate.Sometimes
}

// Refusing returns why the broker refuses a message although it can be reached, and since when. The error is nil if it
// has not done so for health.UnreadyAfter.
func (b *Broker) Refusing() (since time.Time, err error) {
	ready := b.config.Sink.Ready()
	b.Observe(ready)
	since, err = b.Retrier.Failing()
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
