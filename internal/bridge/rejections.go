// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"slices"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/refused"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// refused puts a rejection in the place of an event that the broker will never take. Where it takes not even that, the
// object is recorded and tried again later. Where too many are, it waits, and its stream's position with it, in sight
// of metrics and log.
func (p *session) refused(o *object, err error) {
	a, s := &o.attempt, o.stream
	if sink.IsUnanswered(err) && a.marker == nil {
		a.sought = true
		p.again(o, 0)
		return
	}
	if s.separable(a, err) {
		a.alone = true
		p.again(o, 0)
		return
	}
	if p.reducible(a, err) {
		a.tooLarge = err
		p.again(o, 0)
		return
	}
	s.metrics.Failures.Inc()
	if a.rejected == nil && a.marker == nil {
		if a.blocked.IsZero() {
			s.incidents.Rejected(o.key, err)
		}
		s.often.rejected.Do(func() {
			p.log.Warn("event rejected by the broker", "stream", s.name, "object", o.key, "err", err)
		})
		if p.cfg.StopOnReject {
			p.fail(&RejectedError{Stream: s.name, Object: o.key, ResourceVersion: a.delta.ResourceVersion, err: err})
			p.again(o, refused.FirstDelay)
			return
		}
		a.rejected = err
		p.again(o, 0)
		return
	}
	s.often.refused.Do(func() {
		p.log.Error("broker refuses the subject", "stream", s.name, "object", o.key, "err", err)
	})
	if a.marker == nil && p.setAside(o, err) {
		return
	}
	p.block(a, err)
	if a.marker == nil {
		a.rejected = nil // the event itself comes first when it is tried again
		p.makeRoom(a)
	}
	p.yield(a, 0)
	p.again(o, refused.FirstDelay)
}

// block takes note that the broker takes nothing of an attempt's object.
func (p *session) block(a *attempt, err error) {
	if a.blocked.IsZero() {
		a.blocked = time.Now()
		p.broker.Block(err)
	}
}

// makeRoom ends the session for another one if an attempt has waited for room for long. What it holds up keeps objects
// from being tried that are recorded. The next session reads all of it again, and tries these.
func (p *session) makeRoom(a *attempt) {
	if time.Since(a.blocked) > p.roomTime {
		p.log.Warn("the broker refuses more objects than may be recorded; everything that waits is read again",
			"objects", p.refusals.Load())
		p.restart()
	}
}

// setAside ends the attempt of an object that is recorded as refused; false if no more may be. What the log has already
// need not be recorded.
func (p *session) setAside(o *object, err error) bool {
	s, d := o.stream, &o.attempt.delta
	s.mu.Lock()
	if d.precedes { // what it precedes cannot be told either
		d = &o.pending[0]
	}
	ok := d.repeated || s.refuse(o.key, d, err)
	o.attempt.delta.counted = 0
	if ok && o.attempt.delta.precedes {
		s.drop(&d.Change)
		o.pending = slices.Delete(o.pending, 0, 1)
	}
	s.mu.Unlock()
	if ok && o.attempt.delta.repeated {
		s.resync.leave()
	}
	if ok {
		p.finish(o, nil, sink.Receipt{})
	}
	return ok
}

// RejectedError says that an event cannot be published, and that the pipeline is not to go on without it.
type RejectedError struct {
	Stream, Object, ResourceVersion string
	err                             error
}

// Error implements error.
func (e *RejectedError) Error() string {
	return fmt.Sprintf("stream %s: the event of %s at version %s cannot be published: %v; "+
		"make the broker take it, or set onReject to publish, which puts a rejection in its place",
		e.Stream, e.Object, e.ResourceVersion, e.err)
}

// Unwrap returns why.
func (e *RejectedError) Unwrap() error { return e.err }
