// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

const (
	// A check that fails once finds out what the log has. One that fails again has another writer against it.
	patientConflicts = 3
	conflictDelay    = time.Second
	startDelay       = 50 * time.Millisecond
	// refusedDelay is how long an event waits whose rejection is refused too.
	refusedDelay = 10 * time.Second
)

// work publishes until the queue is shut down.
func (p *Pipeline) work(ctx context.Context) {
	for {
		o, shutdown := p.queue.Get()
		if shutdown {
			return
		}
		p.publish(ctx, o)
	}
}

// publish hands an object's oldest change to the sink. The object comes back in settled.
func (p *Pipeline) publish(ctx context.Context, o *object) {
	s := o.stream
	s.mu.Lock()
	o.take()
	a := &o.attempt
	if !a.active {
		// A change that was folded or came with another call.
		s.mu.Unlock()
		p.queue.Done(o)
		return
	}
	var row checkpoint.Row
	fresh := true
	if a.marker == nil {
		row, fresh = s.classify(o)
	}
	s.mu.Unlock()
	switch {
	case !fresh:
		// The log turned out to have more of the object than was known when the change was queued.
		s.metrics.suppressed.Inc()
		p.finish(o, nil)
		return
	case a.marker == nil && a.delta.silent:
		p.finish(o, &row)
		return
	}
	if a.message == nil {
		a.message = p.memory.messages.Get().(*sink.Message)
	}
	if err := s.encode(a, row); err != nil {
		// Not a JSON object: the API server never sends that, and no retry would cure it.
		s.metrics.failures.Inc()
		s.often.unencodable.Do(func() {
			p.log.Error("change cannot be encoded", "stream", s.name, "object", o.key, "err", err)
		})
	}
	a.published = time.Now()
	p.publisher.Publish(ctx, a.message, o.done)
}

// encode fills the attempt's message, and says what the sink has to check. Where the change cannot be encoded it returns why, and
// the message is a rejection.
func (s *stream) encode(a *attempt, row checkpoint.Row) (err error) {
	m := a.message
	m.Verify, m.Previous = false, 0
	if a.marker != nil {
		s.encoder.Marker(m, a.marker.Marker)
		// Markers of one stream follow each other: the id tells a repetition, unless the process is another one.
		m.Verify, m.Shared = a.marker.again, m.Shared || !a.marker.again
		if a.conflicts > 0 {
			m.Previous = a.previous
		}
		return nil
	}
	if a.rejected == nil {
		if err = s.encoder.Change(m, &a.delta.Change); err != nil {
			a.rejected = err
		}
	}
	if a.rejected != nil {
		s.encoder.Rejected(m, &a.delta.Change, a.rejected, len(a.delta.Body.Bytes()))
	}
	// The first message of a key may meet one that a dead process sent, and in latest mode a late one has an id that
	// nobody repeats.
	m.Verify, m.Previous = s.spec.Latest || !row.Fresh, row.Sequence
	if a.conflicts > 0 {
		m.Verify, m.Previous = true, a.previous
	}
	return err
}

// settled is the broker's word on an attempt. It is called from the sink's goroutines and must not block.
func (p *Pipeline) settled(o *object, r sink.Receipt, err error) {
	switch {
	case err != nil:
		p.failed(o, err)
		return
	case r.Duplicate:
		o.stream.metrics.suppressed.Inc()
	default:
		o.stream.metrics.published(&o.attempt, time.Now())
	}
	if p.debug {
		p.log.Debug("event published", "stream", o.stream.name, "id", o.attempt.message.ID, "sequence", r.Sequence, "duplicate", r.Duplicate)
	}
	// Behind what was recognised as a repetition the log may have more that this process knows nothing of.
	p.finish(o, &checkpoint.Row{Sequence: r.Sequence, Partition: r.Partition, Fresh: !r.Duplicate})
}

// failed gives an attempt another turn.
func (p *Pipeline) failed(o *object, err error) {
	var conflict *sink.ConflictError
	switch {
	case errors.As(err, &conflict):
		p.conflicted(o, conflict.Last)
	case sink.IsPermanent(err):
		p.refused(o, err)
	default:
		// The pipeline is starting or ending. In the latter case the queue takes nothing any more: what is not settled
		// will be read again.
		p.again(o, startDelay)
	}
}

// finish ends an attempt. Place is where the object's last event now is in the log; nil leaves the ledger as it is.
func (p *Pipeline) finish(o *object, place *checkpoint.Row) {
	s := o.stream
	a := o.attempt
	o.attempt = attempt{}
	if a.message != nil {
		p.memory.messages.Put(a.message)
	}
	if a.blocked {
		p.broker.unblocked()
	}
	if a.marker != nil {
		if a.marker.settled != nil {
			a.marker.settled()
		}
		s.tracker.Settle(uint64(a.marker.ticket))
		close(a.marker.acked)
		p.queue.Done(o)
		p.busy.leave()
		return
	}
	s.mu.Lock()
	if place != nil {
		s.remember(o.key, &a.delta, *place)
	}
	s.drop(&a.delta.Change)
	more := len(o.pending) > 0
	if more {
		p.queue.Add(o)
	} else {
		delete(s.pending, o.key)
	}
	s.mu.Unlock()
	p.queue.Done(o)
	if !more {
		o.recycle(p.memory)
		p.busy.leave()
	}
}

// conflicted learns what the log has last of the object. If that makes the change old news, publish will see it; else the change comes
// next after it.
func (p *Pipeline) conflicted(o *object, last *sink.Stored) {
	a, s := &o.attempt, o.stream
	a.conflicts++
	a.previous = 0
	if last != nil {
		a.previous = last.Sequence
	}
	if last != nil && a.marker == nil {
		if state, err := encode.StateOf(last); err == nil && state.ResourceVersion != "" {
			s.learn(o.key, s.found(&a.delta, state, last.Sequence))
		}
	}
	if a.conflicts <= patientConflicts {
		p.again(o, 0)
		return
	}
	s.often.contested.Do(func() {
		p.log.Warn("another writer publishes the same object", "stream", s.name, "object", o.key)
	})
	p.again(o, conflictDelay)
}

// found is the row of what the log was seen to have last of d's object.
//
// A list shows the newest state of every object. So what comes after it in the log is of another history (a cluster that had the same
// name, etcd before it was restored) or of another selection, and its version says nothing here.
func (s *stream) found(d *delta, has encode.State, sequence uint64) checkpoint.Row {
	row := checkpoint.Row{UID: has.UID, ResourceVersion: has.ResourceVersion, Deleted: has.Deleted, Sequence: sequence}
	ours := checkpoint.Row{UID: d.UID, ResourceVersion: d.ResourceVersion}
	if listed(&d.Change) && d.Op != source.Deleted && checkpoint.Newer(ours, has.ResourceVersion, has.Deleted) {
		row.ResourceVersion = ""
		s.foreign.Do(func() {
			s.pipeline.log.Warn("the log is ahead of what the API server lists: it was written for another cluster of this name, before a restore, "+
				"or with other selectors; the present state is published after it", "stream", s.name, "object", d.Key(), "version", has.ResourceVersion)
		})
	}
	return row
}

// refused puts a rejection in the place of an event that the broker will never take. Where it takes not even that, the
// object waits and its stream's position with it, in sight of metrics and log.
func (p *Pipeline) refused(o *object, err error) {
	a, s := &o.attempt, o.stream
	s.metrics.failures.Inc()
	if a.rejected == nil && a.marker == nil {
		s.often.rejected.Do(func() {
			p.log.Warn("event rejected by the broker", "stream", s.name, "object", o.key, "err", err)
		})
		a.rejected = err
		p.again(o, 0)
		return
	}
	s.often.refused.Do(func() {
		p.log.Error("broker refuses the subject", "stream", s.name, "object", o.key, "err", err)
	})
	if !a.blocked {
		a.blocked = true
		p.broker.blocked(err)
	}
	p.again(o, refusedDelay)
}

// again gives the object back to the queue with its attempt still under way.
func (p *Pipeline) again(o *object, after time.Duration) {
	if after == 0 {
		p.queue.Add(o)
	} else {
		o.delayed = true
		p.queue.AddAfter(o, after)
	}
	p.queue.Done(o)
}
