// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/delivery"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/previous"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

const (
	workers       = 2
	commitEvery   = time.Second
	commitTimeout = 30 * time.Second
	defaultDrain  = 20 * time.Second
	// maxCommitDelay is between two tries of a commit that is waited for.
	maxCommitDelay = 10 * time.Second
)

// session is a pipeline between two starts from its checkpoint. What it knows it has read there and from the log, so
// that a session that is given up needs no more care than a process that was killed.
type session struct {
	cfg      *Config
	name     string
	log      *slog.Logger
	sink     sink.Sink
	budget   *delivery.Budget
	began    time.Time
	delivery *delivery.Deliverer
	// incidents are the pipeline's.
	incidents *health.Incidents
	// fenced says that the broker refuses what a replaced process publishes late.
	fenced bool
	// failure takes what ends the session, from who must not block.
	failure chan error
	env     *stream.Environment
	// saved is when the last commit succeeded, in nanoseconds since 1970.
	saved atomic.Int64
	state *checkpoint.State
	// term is the pipeline's.
	term *int64
	// refusals counts the objects that are recorded as refused.
	refusals atomic.Int64
	// epochs are the pipeline's.
	epochs *ledger.Epochs
	// counted: the loss of the log for which the session before ended is counted.
	counted bool
	// checkpoint says why the checkpoint cannot be read or saved. Loading: it is being read.
	checkpoint health.Condition
	loading    atomic.Bool
	// met is closed when the log's end was seen; nothing is watched, or committed, before. Known are the streams that
	// the store knew then.
	met   chan struct{}
	known atomic.Pointer[[]string]

	// committing is held during a commit, and guards what follows.
	committing sync.Mutex
	// logged is what the store has of the log, unless it is unlogged.
	logged   checkpoint.Log
	unlogged bool
	// looked is when the end of the log was looked at last; the committer's own.
	looked time.Time
	// unopenedSaved is what is to be saved of streams that are not open.
	unopenedSaved map[string]checkpoint.Stream

	// restart ends the session so that the next one begins at once; over is closed when this one has ended. Turns has
	// what is to be read instead from now on.
	restart func()
	over    chan struct{}
	turns   chan *turn
	// planned is the pipeline's: a plan was made of what is served.
	planned *bool

	// mu guards what follows.
	mu      sync.Mutex
	streams []*stream.Stream
	// asked are the specs that are read; nil: those of cfg.
	asked []*StreamSpec
	// cache is nil until a stream needs it.
	cache atomic.Pointer[previous.Cache]
	// selected counts the streams that the last plan has of each spec.
	selected map[*StreamSpec]int
	// unbegun are the specs of which something is not open yet that was there at the start.
	unbegun map[*StreamSpec]struct{}
	// resyncNew is what is to be saved as [checkpoint.Log.ResyncNew].
	resyncNew bool
	// unknown says of specs why they are not read.
	unknown map[*StreamSpec]error
}

func newSession(c *Config, to sink.Sink) *session {
	p := &session{
		cfg: c, name: c.Name, log: c.Log, sink: to,
		failure: make(chan error, 1), met: make(chan struct{}),
		unbegun: map[*StreamSpec]struct{}{},
		began:   time.Now(), incidents: &health.Incidents{}, epochs: &ledger.Epochs{},
		restart: func() {}, over: make(chan struct{}), turns: make(chan *turn), planned: new(bool),
	}
	p.budget = delivery.NewBudget(c.Buffer)
	p.delivery = delivery.New(delivery.Config{
		Pipeline: c.Name, Sink: to, Log: c.Log, Metrics: c.Metrics.Pipeline(c.Name), Oversize: c.Oversize,
		StopOnReject: c.StopOnReject, Leased: c.Term != nil, Epochs: p.epochs, Incidents: p.incidents,
		Refused: &p.refusals, Renumber: p.renumber, Fail: p.fail, Restart: func() { p.restart() },
	})
	p.env = newEnvironment(p)
	for _, spec := range p.specs() {
		p.unbegun[spec] = struct{}{}
	}
	return p
}

// errDelivery ends the reading where what delivers has failed.
var errDelivery = errors.New("delivery has failed")

// run is as [Pipeline.Run], and returns a [sink.RewoundError] where the log was found to have lost something.
func (p *session) run(ctx context.Context) error {
	defer p.delivery.ShutDown()
	state, err := p.load(ctx)
	if err != nil {
		return stream.Ended(err)
	}
	if state.Streams == nil {
		state.Streams = map[string]checkpoint.Stream{}
	}
	if state.Rows == nil {
		state.Rows = map[string]map[string]checkpoint.Row{}
	}
	p.observe(state)
	known := slices.Collect(maps.Keys(state.Streams))
	p.known.Store(&known)
	p.saved.Store(time.Now().UnixNano())

	// What delivers outlives what reads, so that what was read can be delivered.
	deliver, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer p.cfg.Term.lost(stop)()
	delivery, failed := errgroup.WithContext(deliver)
	p.deliver(failed, delivery)

	err = p.readAll(ctx, failed)
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
	g.Go(func() error { return p.commits(ctx) })
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
	return n, p.save(ctx)
}

// unmet returns, while the log's end was not seen, the streams that wait for that, and for how long.
func (p *session) unmet() map[string]time.Duration {
	known := p.known.Load()
	select {
	case <-p.met:
		return nil
	default:
	}
	ages := map[string]time.Duration{}
	if known != nil {
		for _, name := range *known {
			ages[name] = time.Since(time.Unix(0, p.saved.Load()))
		}
	}
	return ages
}

func (p *session) opened() []*stream.Stream {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*stream.Stream(nil), p.streams...)
}

// drain waits until everything that was read is in the log, the time for it is up, or delivery has failed.
func (p *session) drain(failed context.Context) {
	ctx, cancel := context.WithTimeout(failed, p.cfg.Drain)
	defer cancel()
	if n := p.delivery.InFlight.Count(); n > 0 {
		p.log.Info("stopping: waiting for the broker to acknowledge what was read", "objects", n, "at most",
			p.cfg.Drain.String())
	}
	if err := p.delivery.InFlight.Wait(ctx); err != nil {
		p.log.Warn("stopped before everything was acknowledged; the rest follows after the next start",
			"objects", p.delivery.InFlight.Count())
	}
}
