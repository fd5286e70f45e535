// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"fmt"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/refused"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// refused puts a rejection in the place of an event that the broker will never take. Where it takes not even that, the
// object is recorded and tried again later. Where too many are, it waits, and its stream's position with it, in sight
// of metrics and log.
func (p *Deliverer) refused(o *Object, err error) {
	a, s := &o.Attempt, o.Stream
	of := s.Account()
	if sink.IsUnanswered(err) && a.Marker == nil {
		a.sought = true
		p.again(o, 0)
		return
	}
	if s.Separable(a, err) {
		a.Alone = true
		p.again(o, 0)
		return
	}
	if a.reducible(p.Oversize, err) {
		a.tooLarge = err
		p.again(o, 0)
		return
	}
	of.Metrics.Failures.Inc()
	if a.Rejected == nil && a.Marker == nil {
		if a.blocked.IsZero() {
			of.Incidents.Rejected(o.Key, err)
		}
		of.often.rejected.Do(func() {
			p.Log.Warn("event rejected by the broker", "stream", of.Name, "object", o.Key, "err", err)
		})
		if p.StopOnReject {
			p.Fail(&RejectedError{Stream: of.Name, Object: o.Key, ResourceVersion: a.Delta.ResourceVersion, err: err})
			p.again(o, refused.FirstDelay)
			return
		}
		a.Rejected = err
		p.again(o, 0)
		return
	}
	of.often.refused.Do(func() {
		p.Log.Error("broker refuses the subject", "stream", of.Name, "object", o.Key, "err", err)
	})
	if a.Marker == nil && !a.Delta.Listed {
		p.Broker.refused(of.Name+" "+o.Key, err)
	}
	if a.Marker == nil && p.setAside(o, err) {
		return
	}
	p.block(a, err)
	if a.Marker == nil {
		a.Rejected = nil // the event itself comes first when it is tried again
		p.makeRoom(a)
	}
	p.yield(a, 0)
	p.again(o, refused.FirstDelay)
}

// block takes note that the broker takes nothing of an attempt's object.
func (p *Deliverer) block(a *Attempt, err error) {
	if a.blocked.IsZero() {
		a.blocked = time.Now()
		p.Broker.Block(err)
	}
}

// makeRoom ends the session for another one if an attempt has waited for room for long. What it holds up keeps objects
// from being tried that are recorded. The next session reads all of it again, and tries these.
func (p *Deliverer) makeRoom(a *Attempt) {
	if time.Since(a.blocked) > p.RoomTime {
		p.Log.Warn("the broker refuses more objects than may be recorded; everything that waits is read again",
			"objects", p.Refused.Load())
		p.Restart()
	}
}

// setAside ends the attempt of an object that is recorded as refused; false if no more may be. What the log has already
// need not be recorded.
func (p *Deliverer) setAside(o *Object, err error) bool {
	if !o.Stream.SetAside(o, err) {
		return false
	}
	p.finish(o, checkpoint.Row{}, false, sink.Receipt{})
	return true
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
