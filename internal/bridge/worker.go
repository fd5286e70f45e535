// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/refused"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

const (
	// A check that fails once finds out what the log has. One that fails again has another writer against it, or an id
	// that the broker knows from before the last event, and stores again when it has forgotten it.
	patientConflicts = 3
	conflictDelay    = time.Second
	startDelay       = 50 * time.Millisecond
	// unkeptDelay is how long an event waits whose data could not be stored.
	unkeptDelay = time.Second
)

// work publishes until the queue is shut down.
func (p *session) work(ctx context.Context) {
	for {
		o, shutdown := p.queue.Get()
		if shutdown {
			return
		}
		p.publish(ctx, o)
	}
}

// workAside does what work does, for objects that would hold up others: an upload, a commit and a read of the log may
// take as long as they like.
func (p *session) workAside(ctx context.Context) {
	for {
		o, shutdown := p.aside.Get()
		if shutdown {
			return
		}
		p.aside.Done(o) // the queue still has it as being processed
		p.advance(ctx, o)
	}
}

// waits reports whether the next step of an attempt waits for something else than an acknowledgement.
func (p *session) waits(a *attempt) bool {
	uploads := p.cfg.Oversize == StoreOversize && a.tooLarge != nil && a.whole == nil && a.rejected == nil
	return uploads || a.sought || a.renumbered || a.delta.Again == unnumbered
}

// publish hands an object's oldest change to the sink. The object comes back in settled.
func (p *session) publish(ctx context.Context, o *object) {
	o.stream.mu.Lock()
	o.take()
	o.stream.mu.Unlock()
	a := &o.attempt
	if !a.active {
		// A change that was folded or came with another call.
		p.queue.Done(o)
		return
	}
	if p.waits(a) {
		p.aside.Add(o)
		return
	}
	p.advance(ctx, o)
}

// advance does an attempt's next step.
func (p *session) advance(ctx context.Context, o *object) {
	a := &o.attempt
	if a.sought && a.marker == nil && p.seek(ctx, o) {
		return
	}
	row, due := p.due(o)
	if !due || !p.prepare(ctx, o, row) || !p.follows(o) || a.sought && p.seek(ctx, o) {
		return
	}
	if !a.flying {
		a.flying, a.window = true, p.offsets.Begin()
	}
	a.written, a.published = writtenAt(a), time.Now()
	p.publisher.Publish(ctx, a.message, o.done)
}

// due reports whether an attempt has something to publish, behind the row that is known of its object. If not, it has
// ended.
func (p *session) due(o *object) (row checkpoint.Row, due bool) {
	s, a := o.stream, &o.attempt
	if a.marker != nil {
		return row, true
	}
	s.mu.Lock()
	row, exists := s.ledger.Get(o.key)
	left := s.leaves(&a.delta.Change, ledger.LastOf(&row, exists))
	fresh := left || s.classify(o, row, exists)
	s.mu.Unlock()
	switch {
	case left:
		p.finish(o, nil, sink.Receipt{})
	case !fresh:
		// The log turned out to have more of the object than was known when the change was queued.
		s.passOver(row.Sequence)
		if s.olds != nil && row.Deleted {
			s.olds.Drop(o.key)
		}
		if a.delta.repeated {
			s.resync.leave()
		} else {
			s.metrics.Suppressed.Inc()
		}
		p.finish(o, nil, sink.Receipt{})
	case s.filtered(a, row):
		a.delta.date()
		p.finish(o, &row, sink.Receipt{})
	default:
		return row, true
	}
	return row, false
}

// prepare makes an attempt's message. It reports false where the object comes back later.
func (p *session) prepare(ctx context.Context, o *object, row checkpoint.Row) bool {
	s, a := o.stream, &o.attempt
	if a.renumbered || a.delta.Again == unnumbered {
		a.renumbered = false
		if p.renumber(ctx, o) != nil {
			return false
		}
	}
	if a.message == nil {
		a.message = p.memory.messages.Get().(*sink.Message)
	}
	if a.tooLarge != nil && a.whole == nil && a.rejected == nil && !p.reduce(ctx, o) {
		return false
	}
	err := s.encode(o, row)
	switch {
	case err == nil:
		return true
	case p.cfg.StopOnReject:
		p.fail(&RejectedError{Stream: s.name, Object: o.key, ResourceVersion: a.delta.ResourceVersion, err: err})
		p.again(o, refused.FirstDelay)
		return false
	}
	// Not a JSON object: the API server never sends that, and no retry would cure it.
	s.metrics.Failures.Inc()
	s.incidents.Rejected(o.key, err)
	s.often.unencodable.Do(func() {
		p.log.Error("change cannot be encoded", "stream", s.name, "object", o.key, "err", err)
	})
	return true
}

// follows reports whether an attempt may go to the broker now. A marker may when the one before it at its subject has
// been acknowledged, and it expects that one there.
func (p *session) follows(o *object) bool {
	a, m := &o.attempt, o.attempt.message
	if p.lanes == nil || a.marker == nil || m.Shared {
		return true
	}
	last, ok := p.lanes.Enter(m.Subject, o)
	if !ok { // whoever ends its turn may have o by now
		return false
	}
	if m.Verify = true; a.conflicts == 0 {
		m.Previous = last
	}
	return true
}

// yield ends the turn of a marker at its subject, where its message is at a place, or at none yet.
func (p *session) yield(a *attempt, place uint64) {
	if p.lanes == nil || a.marker == nil || a.message.Shared {
		return
	}
	if next, ok := p.lanes.Leave(a.message.Subject, place); ok {
		p.again(next, 0)
	}
}

// encode fills the attempt's message, and says what the sink has to check. Where the change cannot be encoded it
// returns why, and the message is a rejection.
func (s *stream) encode(o *object, row checkpoint.Row) (err error) {
	a, m := &o.attempt, o.attempt.message
	m.Verify, m.Previous = false, 0
	if a.marker != nil {
		s.encoder.Marker(m, a.marker.Marker)
		// The id tells a repetition, unless the process is another one.
		m.Verify = a.marker.again || s.session.cfg.Term != nil
		if a.conflicts > 0 {
			m.Previous = a.previous
		}
		return nil
	}
	a.delta.follow(row)
	if a.rejected == nil {
		switch {
		case a.whole != nil:
			err = s.encoder.Reduced(m, &a.delta.Change, a.whole.size, a.whole.ref)
		case s.olds != nil && s.olds.KeepsData:
			err = s.encodeFrom(o, row)
		default:
			err = s.encoder.Change(m, &a.delta.Change)
		}
		a.rejected = err
	}
	if a.rejected != nil {
		s.encoder.Rejected(m, &a.delta.Change, a.rejected, len(a.delta.Body.Bytes()))
	}
	// The broker refuses a message that does not know the last one of the object: a late one, or one of another
	// process. Unfenced, three messages are checked. The first one of a key may meet a message of a dead process. In
	// latest mode a late message has an id that no other message has. A patch has to follow the event that it was made
	// from.
	fenced := !s.session.cfg.Unfenced || s.session.cfg.Term != nil
	m.Verify, m.Previous = fenced || s.spec.Latest || !row.Fresh || a.based, row.Sequence
	if a.conflicts > 0 {
		m.Verify, m.Previous = true, a.previous
	}
	return err
}

// follow says which state the change follows. A change that is published again is no first state, whatever the row
// is of. If the row is of another object of that name, the time of the state before is not known.
func (d *delta) follow(row checkpoint.Row) {
	same := row.UID == d.UID && row.ResourceVersion != ""
	d.Follows, d.Before = same || d.Again != 0, 0
	if same {
		d.Before = row.Written
	}
}

// settled is the broker's word on an attempt. It is called from the sink's goroutines and must not block.
func (p *session) settled(o *object, r sink.Receipt, err error) {
	switch {
	case err != nil:
		p.failed(o, err)
		return
	case r.Duplicate:
		o.stream.metrics.Suppressed.Inc()
		o.stream.passOver(r.Sequence)
	default:
		o.stream.published(&o.attempt, time.Now())
	}
	if p.log.Enabled(context.Background(), slog.LevelDebug) {
		p.log.Debug("event published", "stream", o.stream.name, "id", o.attempt.message.ID, "sequence", r.Sequence,
			"duplicate", r.Duplicate)
	}
	o.attempt.acknowledged = true
	// Behind what was recognised as a repetition the log may have more that this process knows nothing of.
	p.finish(o, &checkpoint.Row{Sequence: r.Sequence, Partition: r.Partition, Fresh: !r.Duplicate}, r)
}

// failed gives an attempt another turn.
func (p *session) failed(o *object, err error) {
	var conflict *sink.ConflictError
	switch {
	case errors.As(err, &conflict):
		p.conflicted(o, conflict)
	case sink.IsPermanent(err):
		p.refused(o, err)
	default:
		// The pipeline is starting or ending. In the latter case the queue takes nothing any more: what is not settled
		// will be read again.
		p.again(o, startDelay)
	}
}

// finish ends an attempt. Place is where the object's last event now is in the log; nil leaves the ledger as it is. r
// is the broker's last word, if it had one.
func (p *session) finish(o *object, place *checkpoint.Row, r sink.Receipt) {
	s := o.stream
	a := o.attempt
	o.attempt = attempt{}
	if !a.blocked.IsZero() {
		p.broker.Unblock()
	}
	if a.marker != nil {
		a.marker.place = r.Sequence
		if a.marker.settled != nil {
			a.marker.settled()
		}
		p.yield(&a, r.Sequence)
		p.landed(&a, r)
		s.tracker.Settle(uint64(a.marker.ticket))
		close(a.marker.acked)
		p.queue.Done(o)
		p.inFlight.Leave()
		return
	}
	if place != nil {
		s.keep(o.key, &a, place)
	}
	s.mu.Lock()
	if place != nil {
		a.delta.rejected = a.rejected != nil
		s.remember(o.key, &a.delta, *place)
	}
	switch {
	case a.delta.precedes: // the log lacks what follows
	case a.delta.counted > 0:
		s.refused.Uncount(o.key, a.delta.counted)
	case place != nil:
		s.refused.Remove(o.key)
	}
	p.landed(&a, r) // after the ledger, before the position
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
		p.inFlight.Leave()
	}
}

// landed moves the mark: what the attempt has put into the log is known. Its message is free.
func (p *session) landed(a *attempt, r sink.Receipt) {
	if a.flying {
		p.offsets.End(a.window, r, a.message.ID)
	}
	if a.message != nil {
		p.memory.messages.Put(a.message)
	}
}

// conflicted learns what the log has last of the object. If that makes the change old news, publish will see it; else
// the change comes next after it.
func (p *session) conflicted(o *object, conflict *sink.ConflictError) {
	a, s, last := &o.attempt, o.stream, conflict.Last
	a.conflicts++
	a.previous = 0
	if last != nil {
		a.previous = last.Sequence
	}
	if last != nil && a.marker == nil {
		state, err := encode.StateOf(last)
		own := err == nil && state.Pipeline == p.name // another one's says nothing of this pipeline's objects
		if own && p.term != nil && state.WriterTerm > *p.term && p.cfg.Term != nil {
			p.fail(&overtakenError{object: o.key, term: state.WriterTerm, own: *p.term})
			p.again(o, refused.FirstDelay)
			return
		}
		if own && state.Sequence != (sequence.Sequence{}) {
			p.meetWriter(o, &state, last)
			s.found(o.key, &a.delta.Change, &state, last.Sequence)
		}
	}
	a.sought = a.marker != nil
	a.renumbered = conflict.Duplicate > 0 && a.delta.Again != 0
	if a.conflicts <= patientConflicts || a.renumbered {
		p.again(o, 0)
		return
	}
	s.often.contested.Do(func() {
		if conflict.Duplicate > 0 {
			p.log.Warn("an event waits: the log has another one of its object behind it, and the broker still knows the id",
				"stream", s.name, "object", o.key, "err", conflict)
			return
		}
		p.log.Warn("somebody else publishes to the subject of an object", "stream", s.name, "object", o.key)
	})
	p.yield(a, 0)
	p.again(o, conflictDelay)
}

// renumber gives a republished event another number, because the log has the event of this one before other events of
// the object. The number is durable when it returns. The error is ctx's, or permanent; then the object comes back
// later.
func (p *session) renumber(ctx context.Context, o *object) error {
	p.committing.Lock()
	o.attempt.delta.Again = p.nextResync(0)
	p.committing.Unlock()
	if err := p.save(ctx); err != nil {
		p.again(o, startDelay)
		return err
	}
	return nil
}

// found takes note of what the log was seen to have last of an object. An epoch that the checkpoint has not given is
// another process's: then the pipeline starts from the log again.
func (s *stream) found(key string, c *source.Change, has *encode.State, at uint64) {
	if has.Sequence.Epoch > s.session.epochs.Last() {
		s.session.fail(&sink.InterruptedError{Target: s.session.cfg.Target, Cause: errNotGiven})
	}
	next := ledger.RowOfState(has)
	next.Sequence = at
	last := next.Last()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.revived(c, &last) {
		s.revoke(c, has.ResourceVersion)
	}
	known, exists := s.ledger.Get(key)
	s.ledger.Put(key, ledger.Apply(known, exists, next))
}

var errNotGiven = errors.New("the log has an epoch that the checkpoint has not given")

// seek looks for an attempt's message among what the log got since it was first published: streams of single namespaces
// announce themselves at the same subject, so that the last message there may be another's, and what is refused may
// have been taken before. It reports whether the attempt is settled by that, or comes back later.
func (p *session) seek(ctx context.Context, o *object) bool {
	a := &o.attempt
	a.sought = false
	log, ok := p.sink.(sink.Log)
	if !ok || !a.flying {
		return false
	}
	var found *sink.Stored
	err := log.Read(ctx, sink.Query{After: p.offsets.From(a.window)}, func(m *sink.Stored) error {
		if m.ID == a.message.ID {
			found = m
		}
		return nil
	})
	switch {
	case err != nil && a.marker == nil: // without an answer it could be taken for what the log lacks
		a.sought = true
		p.block(a, err)
		p.again(o, conflictDelay)
		return true
	case err != nil || found == nil:
		return false
	}
	p.settled(o, sink.Receipt{Sequence: found.Sequence, Partition: found.Partition, Duplicate: true}, nil)
	return true
}

// fail ends the session.
func (p *session) fail(err error) {
	select {
	case p.failure <- err:
	default: // it ends already
	}
}

// again gives the object back to the queue with its attempt still under way.
func (p *session) again(o *object, after time.Duration) {
	if after == 0 {
		p.queue.Add(o)
	} else {
		o.delayed = true
		p.queue.AddAfter(o, after)
	}
	p.queue.Done(o)
}
