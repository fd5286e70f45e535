// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/refused"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

const (
	// PatientConflicts is how many checks of an event may fail before it waits. A check that fails once finds out what the
	// log has. One that fails again has another writer against it, or an id that the broker knows from before the last
	// event, and stores again when it has forgotten it.
	PatientConflicts = 3
	// ConflictDelay is how long an event waits then.
	ConflictDelay = time.Second
	startDelay    = 50 * time.Millisecond
	// unkeptDelay is how long an event waits whose data could not be stored.
	unkeptDelay = time.Second
)

// Config says what a delivery consists of.
type Config struct {
	Cluster, Pipeline string
	Sink              sink.Sink
	Log               *slog.Logger
	Metrics           health.Pipeline
	// Oversize says what becomes of an event that is too large for the broker.
	Oversize Oversize
	// StopOnReject ends the delivery where the broker refuses an event for good.
	StopOnReject bool
	// Leased: Term is the number of the lease's term under which the pipeline publishes.
	Leased    bool
	Term      *int64
	Epochs    *ledger.Epochs
	Incidents *health.Incidents
	// Refused counts the objects of the pipeline that are recorded as refused.
	Refused *atomic.Int64
	// Renumber returns a number for a republished event that is durable. The error is ctx's, or permanent.
	Renumber func(ctx context.Context) (int64, error)
	// Fail ends the delivery with an error, Restart for another one that begins at once. They do not block.
	Fail    func(error)
	Restart func()
}

// Deliverer brings what streams enqueue to the broker, in order per object.
type Deliverer struct {
	Config
	Queue
	pool
	writers
	Publisher sink.Publisher
	InFlight  InFlight
	Broker    Broker
	Offsets   *Offsets
	// lanes is nil where the broker refuses what dead processes have sent without them, or is not asked to.
	lanes *Lanes[*Object]
	// RoomTime is the constant, but in tests.
	RoomTime time.Duration
}

// New returns a delivery whose workers have not begun.
func New(c Config) *Deliverer {
	p := &Deliverer{Config: c, Queue: newQueue(), Offsets: NewOffsets(), RoomTime: refused.LastDelay}
	p.pool.of(p)
	p.writers = writers{
		config: &p.Config, began: time.Now(), saying: rate.Sometimes{Interval: health.UnreadyAfter},
	}
	p.Broker.config, p.Broker.saying.Interval = &p.Config, health.UnreadyAfter
	retries := c.Metrics.Retries
	p.Broker.Retrier = sink.Retry(c.Sink, sink.Policy{OnRetry: func(_ *sink.Message, cause error) {
		retries.Inc()
		p.Broker.SayRefused(cause)
	}})
	p.Publisher = p.Broker.Retrier
	return p
}

// UseLanes has the markers of a subject published one after the other.
func (p *Deliverer) UseLanes() { p.lanes = NewLanes[*Object]() }

// Object returns one for the changes of a key. It is counted as under way until nothing is pending of it.
func (p *Deliverer) Object(s Stream, key string) *Object {
	o := p.objects.Get().(*Object)
	o.Stream, o.Key = s, key
	p.InFlight.Enter()
	return o
}

// Announce queues a marker of a stream, which has a ticket.
func (p *Deliverer) Announce(s Stream, m *Marker) {
	m.acked = make(chan struct{})
	o := p.newObject()
	o.Stream = s
	o.Attempt = Attempt{Active: true, Marker: m}
	p.InFlight.Enter()
	p.Add(o)
}

// Work publishes until the queue is shut down.
func (p *Deliverer) Work(ctx context.Context) {
	for p.Next(ctx) {
	}
}

// Next publishes what the queue has next; false when it is shut down.
func (p *Deliverer) Next(ctx context.Context) bool {
	o, shutdown := p.main.Get()
	if !shutdown {
		p.publish(ctx, o)
	}
	return !shutdown
}

// WorkAside does what Work does, for objects that would hold up others: an upload, a commit and a read of the log may
// take as long as they like.
func (p *Deliverer) WorkAside(ctx context.Context) {
	for {
		o, shutdown := p.aside.Get()
		if shutdown {
			return
		}
		p.aside.Done(o) // the queue still has it as being processed
		p.advance(ctx, o)
	}
}

// publish hands an object's oldest change to the sink. The object comes back in settled.
func (p *Deliverer) publish(ctx context.Context, o *Object) {
	o.Stream.Take(o)
	a := &o.Attempt
	if !a.Active {
		// A change that was folded or came with another call.
		p.main.Done(o)
		return
	}
	if a.waits(p.Oversize) {
		p.aside.Add(o)
		return
	}
	p.advance(ctx, o)
}

// advance does an attempt's next step.
func (p *Deliverer) advance(ctx context.Context, o *Object) {
	a := &o.Attempt
	if a.sought && a.Marker == nil && p.seek(ctx, o) {
		return
	}
	row, due := p.due(o)
	if !due || !p.prepare(ctx, o, row) || !p.follows(o) || a.sought && p.seek(ctx, o) {
		return
	}
	if !a.flying {
		a.flying, a.window = true, p.Offsets.Begin()
	}
	a.Written, a.Published = writtenAt(a), time.Now()
	p.Publisher.Publish(ctx, a.Message, o.done)
}

// due reports whether an attempt has something to publish, behind the row that is known of its object. If not, it has
// ended.
func (p *Deliverer) due(o *Object) (row checkpoint.Row, due bool) {
	s, a := o.Stream, &o.Attempt
	if a.Marker != nil {
		return row, true
	}
	row, fate := s.Due(o)
	if fate != Publish {
		p.finish(o, row, fate == Remember, sink.Receipt{})
	}
	return row, fate == Publish
}

// prepare makes an attempt's message. It reports false where the object comes back later.
func (p *Deliverer) prepare(ctx context.Context, o *Object, row checkpoint.Row) bool {
	s, a := o.Stream, &o.Attempt
	of := s.Account()
	if a.renumbered || a.Delta.Again == Unnumbered {
		a.renumbered = false
		n, err := p.Renumber(ctx)
		if a.Delta.Again = n; err != nil {
			p.again(o, startDelay)
			return false
		}
	}
	if a.Message == nil {
		a.Message = p.messages.Get().(*sink.Message)
	}
	if a.tooLarge != nil && a.Whole == nil && a.Rejected == nil && !p.reduce(ctx, o) {
		return false
	}
	err := s.Encode(o, row)
	switch {
	case err == nil:
		return true
	case p.StopOnReject:
		p.Fail(&RejectedError{Stream: of.Name, Object: o.Key, ResourceVersion: a.Delta.ResourceVersion, err: err})
		p.again(o, refused.FirstDelay)
		return false
	}
	// Not a JSON object: the API server never sends that, and no retry would cure it.
	of.Metrics.Failures.Inc()
	of.Incidents.Rejected(o.Key, err)
	of.often.unencodable.Do(func() {
		p.Log.Error("change cannot be encoded", "stream", of.Name, "object", o.Key, "err", err)
	})
	return true
}

// follows reports whether an attempt may go to the broker now. A marker may when the one before it at its subject has
// been acknowledged, and it expects that one there.
func (p *Deliverer) follows(o *Object) bool {
	a, m := &o.Attempt, o.Attempt.Message
	if p.lanes == nil || a.Marker == nil || m.Shared {
		return true
	}
	last, ok := p.lanes.Enter(m.Subject, o)
	if !ok { // whoever ends its turn may have o by now
		return false
	}
	if m.Verify = true; a.Conflicts == 0 {
		m.Previous = last
	}
	return true
}

// yield ends the turn of a marker at its subject, where its message is at a place, or at none yet.
func (p *Deliverer) yield(a *Attempt, place uint64) {
	if p.lanes == nil || a.Marker == nil || a.Message.Shared {
		return
	}
	if next, ok := p.lanes.Leave(a.Message.Subject, place); ok {
		p.again(next, 0)
	}
}

// settled is the broker's word on an attempt. It is called from the sink's goroutines and must not block.
func (p *Deliverer) settled(o *Object, r sink.Receipt, err error) {
	switch {
	case err != nil:
		p.failed(o, err)
		return
	case r.Duplicate:
		o.Stream.Account().Metrics.Suppressed.Inc()
		o.Stream.PassOver(r.Sequence)
	default:
		o.Stream.Published(&o.Attempt, time.Now())
	}
	if p.Log.Enabled(context.Background(), slog.LevelDebug) {
		p.Log.Debug("event published", "stream", o.Stream.Account().Name, "id", o.Attempt.Message.ID, "sequence", r.Sequence,
			"duplicate", r.Duplicate)
	}
	o.Attempt.Acknowledged = true
	p.Broker.accepted()
	// Behind what was recognised as a repetition the log may have more that this process knows nothing of.
	p.finish(o, checkpoint.Row{Sequence: r.Sequence, Partition: r.Partition, Fresh: !r.Duplicate}, true, r)
}

// failed gives an attempt another turn.
func (p *Deliverer) failed(o *Object, err error) {
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

// finish ends an attempt. Place is where the object's last event now is in the log; where it does not move the ledger
// stays as it is. r is the broker's last word, if it had one.
func (p *Deliverer) finish(o *Object, place checkpoint.Row, moves bool, r sink.Receipt) {
	a := &o.Attempt
	if !a.blocked.IsZero() {
		p.Broker.Unblock()
	}
	if m := a.Marker; m != nil {
		m.Place = r.Sequence
		if m.Settled != nil {
			m.Settled()
		}
		p.yield(a, r.Sequence)
		p.Landed(a, r)
		o.Stream.Settle(m.Ticket)
		close(m.acked)
		o.Attempt = Attempt{}
		p.main.Done(o)
		p.InFlight.Leave()
		return
	}
	more := o.Stream.Finish(o, place, moves, r)
	o.Attempt = Attempt{}
	p.main.Done(o)
	if !more {
		p.recycle(o)
		p.InFlight.Leave()
	}
}

// Landed moves the mark: what the attempt has put into the log is known. Its message is free.
func (p *Deliverer) Landed(a *Attempt, r sink.Receipt) {
	if a.flying {
		p.Offsets.End(a.window, r, a.Message.ID)
	}
	if a.Message != nil {
		p.messages.Put(a.Message)
	}
}

// conflicted learns what the log has last of the object. If that makes the change old news, publish will see it; else
// the change comes next after it.
func (p *Deliverer) conflicted(o *Object, conflict *sink.ConflictError) {
	a, s, last := &o.Attempt, o.Stream, conflict.Last
	of := s.Account()
	a.Conflicts++
	a.Previous = 0
	if last != nil {
		a.Previous = last.Sequence
	}
	if last != nil && a.Marker == nil {
		state, err := encode.StateOf(last)
		// Another pipeline's, or another cluster's, says nothing of this pipeline's objects.
		own := err == nil && state.Pipeline == p.Pipeline && encode.IsOfCluster(state.Source, p.Cluster)
		if own && p.Leased && state.WriterTerm > *p.Term {
			p.Fail(&overtakenError{object: o.Key, term: state.WriterTerm, own: *p.Term})
			p.again(o, refused.FirstDelay)
			return
		}
		if own && state.Sequence != (sequence.Sequence{}) {
			p.meet(o, &state, last)
			s.Found(o, &state, last.Sequence)
		}
	}
	a.sought = a.Marker != nil
	a.renumbered = conflict.Duplicate > 0 && a.Delta.Again != 0
	if a.Conflicts <= PatientConflicts || a.renumbered {
		p.again(o, 0)
		return
	}
	of.often.contested.Do(func() {
		if conflict.Duplicate > 0 {
			p.Log.Warn("an event waits: the log has another one of its object behind it, and the broker still knows the id",
				"stream", of.Name, "object", o.Key, "err", conflict)
			return
		}
		p.Log.Warn("somebody else publishes to the subject of an object", "stream", of.Name, "object", o.Key)
	})
	p.yield(a, 0)
	p.again(o, ConflictDelay)
}

// seek looks for an attempt's message among what the log got since it was first published: streams of single namespaces
// announce themselves at the same subject, so that the last message there may be another's, and what is refused may
// have been taken before. It reports whether the attempt is settled by that, or comes back later.
func (p *Deliverer) seek(ctx context.Context, o *Object) bool {
	a := &o.Attempt
	a.sought = false
	log, ok := p.Sink.(sink.Log)
	if !ok || !a.flying {
		return false
	}
	var found *sink.Stored
	err := log.Read(ctx, sink.Query{After: p.Offsets.From(a.window)}, func(m *sink.Stored) error {
		if m.ID == a.Message.ID {
			found = m
		}
		return nil
	})
	switch {
	case err != nil && a.Marker == nil: // without an answer it could be taken for what the log lacks
		a.sought = true
		p.block(a, err)
		p.again(o, ConflictDelay)
		return true
	case err != nil || found == nil:
		return false
	}
	p.settled(o, sink.Receipt{Sequence: found.Sequence, Partition: found.Partition, Duplicate: true}, nil)
	return true
}
