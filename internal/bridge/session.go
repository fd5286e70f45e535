// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/delivery"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

const (
	workers       = 2
	commitTimeout = 30 * time.Second
	defaultDrain  = 20 * time.Second
)

// session is a pipeline between two starts from its checkpoint. What it knows it has read there and from the log, so
// that a session that is given up needs no more care than a process that was killed.
type session struct {
	*opener
	control
	entries  *entries
	sink     sink.Sink
	delivery *delivery.Deliverer
	began    time.Time
	// fenced says that the broker refuses what a replaced process publishes late.
	fenced bool
	// looked is when the end of the log was looked at last.
	looked time.Time
	// refusals counts the objects that are recorded as refused.
	refusals atomic.Int64
	// failure takes what ends the session, from who must not block.
	failure chan error
	// met is closed when the log's end was seen; nothing is watched, or committed, before.
	met chan struct{}
}

// control is how a pipeline directs its session.
type control struct {
	// restart ends the session so that the next one begins at once; over is closed when this one has ended. Turns has
	// what is to be read instead from now on.
	restart func()
	over    chan struct{}
	turns   chan *turn
}

// newSession returns the next session of a pipeline.
func newSession(of *Pipeline, to sink.Sink) *session {
	c := &of.cfg
	p := &session{
		entries: newEntries(of.next), sink: to, began: time.Now(),
		failure: make(chan error, 1), met: make(chan struct{}),
		control: control{restart: func() {}, over: make(chan struct{}), turns: make(chan *turn)},
	}
	p.delivery = delivery.New(delivery.Config{
		Cluster: c.Identity.Cluster, Pipeline: c.Name, Sink: to, Log: c.Log, Metrics: c.Metrics.Pipeline(c.Name),
		Oversize: c.Oversize, StopOnReject: c.StopOnReject, Leased: c.Term != nil, Term: &of.term, Epochs: &of.epochs,
		Incidents: &of.incidents, Refused: &p.refusals, Renumber: p.renumber, Fail: p.fail,
		Restart: func() { p.restart() },
	})
	p.opener = newOpener(c, &of.lasting, p.delivery)
	p.env.Session = forStreams{p}
	return p
}

// errDelivery ends the reading where what delivers has failed.
var errDelivery = errors.New("delivery has failed")

// run is as [Pipeline.Run], and returns a [sink.RewoundError] where the log was found to have lost something.
func (p *session) run(ctx context.Context) error {
	defer p.delivery.ShutDown()
	if err := p.journal.Load(ctx); err != nil {
		return stream.Ended(err)
	}

	// What delivers outlives what reads, so that what was read can be delivered.
	deliver, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer p.cfg.Term.lost(stop)()
	delivery, failed := errgroup.WithContext(deliver)
	p.deliver(failed, delivery)

	err := p.readAll(ctx, failed)
	if err == nil {
		p.drain(failed)
	}
	p.delivery.ShutDown()
	stop()
	if errors.Is(err, errDelivery) {
		err = nil
	}
	if failure := stream.Ended(delivery.Wait()); !checkpoint.IsPermanent(err) {
		err = errors.Join(err, failure) // else both were refused the same
	}
	var rewound *sink.RewoundError
	if errors.As(err, &rewound) || checkpoint.IsPermanent(err) {
		return err // what was acknowledged does not hold, or cannot be committed
	}
	if !p.cfg.Term.held() {
		return stream.Ended(err)
	}
	return errors.Join(err, p.lastCommit(ctx))
}

// readAll reads all streams, once it is known what the log has of them. It ends with ctx, or with delivery.
func (p *session) readAll(ctx, failed context.Context) error {
	reading, reads := errgroup.WithContext(ctx)
	reading.Go(func() error {
		select {
		case <-failed.Done():
			return errDelivery // which says why itself
		case <-reads.Done():
			return nil
		}
	})
	reading.Go(func() error {
		if err := p.meetLog(reads); err != nil {
			return stream.Ended(err)
		}
		if err := p.assume(reads); err != nil {
			return stream.Ended(err)
		}
		close(p.met)
		p.sayPublishing() // whatever it waited for
		return newReconciler(p, reading).reconcile(reads)
	})
	return reading.Wait()
}

func (p *session) deliver(ctx context.Context, g *errgroup.Group) {
	g.Go(func() error { return p.sink.Run(ctx) })
	g.Go(func() error { return p.delivery.Broker.Retrier.Run(ctx) })
	g.Go(func() error { return p.keepUp(ctx) })
	for range workers {
		g.Go(func() error {
			p.delivery.Work(ctx)
			return nil
		})
		g.Go(func() error {
			p.delivery.WorkAside(ctx)
			return nil
		})
	}
	g.Go(func() error {
		select {
		case err := <-p.failure:
			return err
		case <-ctx.Done():
			return nil
		}
	})
	g.Go(func() error {
		// A failure of the sink ends the workers too.
		<-ctx.Done()
		p.delivery.ShutDown()
		return nil
	})
}

// fail ends the session.
func (p *session) fail(err error) {
	select {
	case p.failure <- err:
	default: // it ends already
	}
}

// renumber gives a republished event another number, because the log has the event of this one before other events of
// the object. The number is durable when it returns. The error is ctx's, or permanent.
func (p *session) renumber(ctx context.Context) (n int64, err error) {
	p.env.Exclusive(func() { n = p.env.NextResync(0) })
	return n, p.journal.Save(ctx)
}

// unmet returns, while the log's end was not seen, the streams that wait for that, and for how long.
func (p *session) unmet() map[string]time.Duration {
	if p.hasMet() {
		return nil
	}
	ages := map[string]time.Duration{}
	for _, name := range p.journal.Known() {
		ages[name] = time.Since(p.journal.Saved())
	}
	return ages
}

// hasMet reports whether the log's end was seen.
func (p *session) hasMet() bool {
	select {
	case <-p.met:
		return true
	default:
		return false
	}
}

// drain waits until everything that was read is in the log, the time for it is up, or delivery has failed.
func (p *session) drain(failed context.Context) {
	ctx, cancel := context.WithTimeout(failed, p.cfg.Drain)
	defer cancel()
	if n := p.delivery.InFlight.Count(); n > 0 {
		p.cfg.Log.Info("stopping: waiting for the broker to acknowledge what was read", "objects", n, "at most",
			p.cfg.Drain.String())
	}
	if err := p.delivery.InFlight.Wait(ctx); err != nil {
		p.cfg.Log.Warn("stopped before everything was acknowledged; the rest follows after the next start",
			"objects", p.delivery.InFlight.Count())
	}
}
