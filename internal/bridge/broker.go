// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"sync"
	"time"
)

// broker is how the broker is doing.
type broker struct {
	mu sync.Mutex
	// reached says that the broker was ready once; away since when it is not, and back when it was again.
	reached    bool
	away, back time.Time
	// refusals counts the objects of which the broker takes nothing, refusal is why.
	refusals int
	refusal  error
}

// observe takes note of whether the broker is ready. It is called once a second at least.
func (b *broker) observe(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
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

// refusing returns why the broker refuses a message although it can be reached, and since when. The error is nil if it
// has not done so for unreadyAfter.
func (p *session) refusing() (since time.Time, err error) {
	ready := p.sink.Ready()
	p.broker.observe(ready)
	since, err = p.retrier.Failing()
	if back := p.broker.returned(); since.Before(back) {
		since = back // what failed before failed for another reason
	}
	if ready != nil || time.Since(since) < unreadyAfter {
		err = nil
	}
	return since, err
}

// returned returns when the broker was ready again after it was not; zero if it always was.
func (b *broker) returned() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.back
}

// takes reports whether the broker can be reached, and takes what it is handed.
func (p *session) takes() bool {
	_, refused := p.refusing()
	return refused == nil && p.sink.Ready() == nil
}

// sayRefused says in the log, once in a while, that the broker can be reached and refuses something.
func (p *session) sayRefused(cause error) {
	p.saying.Do(func() {
		since, refused := p.refusing()
		if refused != nil {
			p.log.Warn("the broker answers, and refuses what is published", "pipeline", p.name,
				"since", since.UTC().Format(time.RFC3339), "err", cause)
		}
	})
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
