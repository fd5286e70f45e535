// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
)

// refusing returns why the broker refuses a message although it can be reached, and since when. The error is nil if it
// has not done so for health.UnreadyAfter.
func (p *session) refusing() (since time.Time, err error) {
	ready := p.sink.Ready()
	p.broker.Observe(ready)
	since, err = p.retrier.Failing()
	if back := p.broker.Returned(); since.Before(back) {
		since = back // what failed before failed for another reason
	}
	if ready != nil || time.Since(since) < health.UnreadyAfter {
		err = nil
	}
	return since, err
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
			p.log.Warn("the broker answers, and refuses what is published", "since", since.UTC().Format(time.RFC3339),
				"err", cause)
		}
	})
}
