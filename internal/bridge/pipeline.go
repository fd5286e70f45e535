// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/delivery"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/journal"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/membership"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/resyncs"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/spec"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source/catalog"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
	"github.com/kube-eventbridge/kube-eventbridge/source/reader"
	"github.com/kube-eventbridge/kube-eventbridge/source/sharing"
)

type (
	// StreamSpec is what a pipeline wants to read.
	StreamSpec = spec.Stream
	// Filter decides which changes of a stream are published.
	Filter = spec.Filter
	// Wildcard names every resource that can be listed and watched, of one group or of all.
	Wildcard = membership.Wildcard
	// Oversize says what becomes of an event that is larger than the broker takes.
	Oversize = delivery.Oversize
	// RejectedError says that an event cannot be published, and that the pipeline is not to go on without it.
	RejectedError = delivery.RejectedError
	// WriterError says that another process publishes as a pipeline.
	WriterError = delivery.WriterError
	// Resync is one publication of everything that a stream has.
	Resync = resyncs.Resync
	// ResyncState says how far a [Resync] is.
	ResyncState = resyncs.State
	// Refusal is why the broker takes nothing of an object.
	Refusal = stream.Refusal
	// StreamState is how a stream is doing.
	StreamState = stream.Report
	// Exclusion leaves resources out of a [Wildcard].
	Exclusion = membership.Exclusion
)

// ErrNotServed says that the API server does not serve what an entry names.
var ErrNotServed = membership.ErrNotServed

// What may become of an event that is too large.
const (
	RejectOversize = delivery.RejectOversize
	ReduceOversize = delivery.ReduceOversize
	StoreOversize  = delivery.StoreOversize
)

// The states of a resync.
const (
	ResyncRefused = resyncs.Refused
	ResyncQueued  = resyncs.Queued
	ResyncRunning = resyncs.Running
	ResyncDone    = resyncs.Done
	ResyncFailed  = resyncs.Failed
	ResyncEmpty   = resyncs.Empty
)

// Config says what a pipeline consists of. All fields are needed except Siblings, Target, Watches, Namespaces,
// Oversize, ResyncRate, Drain, Unfenced, Term and Log.
type Config struct {
	Name string
	// Siblings are the names of the pipelines of the same file.
	Siblings []string
	// Target names for a person what is published to.
	Target  string
	Streams []StreamSpec
	Client  *kube.Client
	// Watches are shared with other pipelines; nil: each stream has a watch of its own.
	Watches *sharing.Watches
	// Catalog tells which resources are served. Whoever makes it runs it.
	Catalog *catalog.Catalog
	// Namespaces are those of the cluster; needed where a spec selects them. Whoever makes it runs it.
	Namespaces *catalog.Namespaces
	// Sink makes a sink. It is called once for each [session]: a sink that has ended is not used again. Where it fails
	// after a session, it is called again: what it reads may be about to be replaced. Epoch returns the greatest epoch
	// that the pipeline has given.
	Sink func(epoch func() uint64) (sink.Sink, error)
	// Store must belong to this pipeline and cluster.
	Store    checkpoint.Store
	Identity checkpoint.Identity
	// Buffer bounds the bytes between the API server and the broker's acknowledgement.
	Buffer int64
	// Recovery bounds what is read back of a gap.
	Recovery reader.Recovery
	// Audit is how often each stream is compared with what exists; zero is never.
	Audit time.Duration
	// ResyncRate is how many objects of a stream are published again in a second, at most: 200 if zero.
	ResyncRate rate.Limit
	// StopOnReject ends the pipeline, with an error, where the broker refuses an event for good. Without it a rejection
	// stands in the event's place.
	StopOnReject bool
	// Oversize says what becomes of an event that is too large for the broker.
	Oversize Oversize
	Metrics  *health.Metrics
	// Drain bounds how long a stop waits for acknowledgements: 20 s if zero.
	Drain time.Duration
	// Unfenced says that the broker is asked to check what a message follows only where the process cannot know it.
	// Then a message that was late on its way can be stored behind newer ones of its object.
	Unfenced bool
	// Term is that of the lease under which the pipeline publishes; nil where nobody else can publish the same.
	Term *Term
	Log  *slog.Logger
}

// Term is a time for which this process, of several that could, may publish.
type Term struct {
	// Number is greater than those of all terms before, as far as the lease tells. Events carry it, or a greater number
	// where the checkpoint knows of terms that the lease has forgotten.
	Number int64
	// Held ends when nothing may be published or committed any more. What is under way then is given up; the broker
	// decides about it.
	Held context.Context
}

// Between two sessions there is a wait, which grows with each that did not last.
const (
	restartDelay, maxRestartDelay = time.Second, time.Minute
	// lasted is how long a session has to run to be one that ran well.
	lasted = time.Minute
)

// SpecError is what the API server's answers show to be wrong with a pipeline's streams: they have to be configured
// differently.
type SpecError struct{ err error }

// Error implements error.
func (e *SpecError) Error() string { return e.err.Error() }

// Unwrap returns what is wrong.
func (e *SpecError) Unwrap() error { return e.err }

// lasting is what outlives the sessions of a pipeline.
type lasting struct {
	// term is what events carry as that of their writer; 0 without a Term, and before the checkpoint is read.
	term int64
	// epochs are those that the pipeline gives out.
	epochs ledger.Epochs
	// planned: a session has known what is served.
	planned bool
	// counted: the loss of the log for which the last session ended is counted.
	counted bool
	// incidents are what happened in all sessions.
	incidents health.Incidents
}

// Pipeline publishes the changes of its streams to its sink.
type Pipeline struct {
	cfg Config
	lasting
	// current is the session that runs, or ran last; nil before the first.
	current atomic.Pointer[session]
	// ended is why it does not run any more; nil while it does.
	ended atomic.Pointer[health.Event]

	mu sync.Mutex
	// next are the specs that the next session reads, and current is to.
	next []*StreamSpec
	// buffer is the limit of the next session, and of current.
	buffer int64
}

// New returns a pipeline that does nothing until Run.
func New(c Config) *Pipeline {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Log = c.Log.With("pipeline", c.Name)
	if c.Drain == 0 {
		c.Drain = defaultDrain
	}
	if c.ResyncRate == 0 {
		c.ResyncRate = resyncs.Rate
	}
	p := &Pipeline{cfg: c, buffer: c.Buffer, next: pointers(c.Streams)}
	c.Metrics.Add(p)
	return p
}

// Run publishes until ctx ends; then it stops reading, waits at most the drain time for what is under way, commits, and
// returns nil. It returns an error where something must not be used: a checkpoint, a stream of the broker. Where the
// log lost what it had acknowledged, or may have what it had not, all starts again from the checkpoint, as after a
// crash, and what the log lost is published again. When the Term is not held any more, Run gives up what is under way,
// commits nothing, and returns nil: that is as a crash. Run may be called once.
func (p *Pipeline) Run(ctx context.Context) error {
	defer p.hold(ctx)()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer p.cfg.Term.lost(cancel)()
	defer p.cfg.Metrics.Remove(p)
	delay := restartDelay
	for {
		began := time.Now()
		err := p.session(ctx)
		var rewound *sink.RewoundError
		var interrupted *sink.InterruptedError
		var unmade *noSinkError
		switch {
		case checkpoint.IsPermanent(err):
			return fmt.Errorf("pipeline %s: %w", p.cfg.Name, err)
		case errors.As(err, &rewound):
			p.counted = true
			p.cfg.Metrics.Pipeline(p.cfg.Name).Losses.Inc()
			p.incidents.LogLost(rewound)
			p.cfg.Log.Warn("the log has lost what it had acknowledged", "err", rewound)
		case errors.As(err, &interrupted):
			p.counted = false
			p.cfg.Log.Warn("what was published last may be in the log or not; it is read back", "err", interrupted)
		case errors.As(err, &unmade) && p.current.Load() != nil:
			p.cfg.Log.Warn("the broker's client cannot be made; it is tried again", "err", unmade.err)
		case errors.Is(err, errRespecified):
			continue // at once: nothing has failed
		case err != nil:
			return fmt.Errorf("pipeline %s: %w", p.cfg.Name, err)
		default:
			return nil
		}
		if time.Since(began) >= lasted {
			delay = restartDelay
		}
		if pause.For(ctx, delay-time.Duration(rand.Int64N(int64(delay)/4))) != nil {
			return nil // the next start finds it
		}
		delay = min(2*delay, maxRestartDelay)
	}
}

// End has everything that shows the pipeline say that it has ended, and why. It may be called when Run has returned, or
// instead of Run.
func (p *Pipeline) End(why error) {
	p.ended.Store(&health.Event{At: time.Now(), Err: why})
	p.cfg.Metrics.Add(p)
}

// hold keeps the checkpoint this pipeline's where others could take it: in sessions, between them, and while a stop
// drains. It ends with the Term, or when done is called. An error that is not permanent is that of a broker that is
// away: the commits tell of it, and the next attempt may succeed.
func (p *Pipeline) hold(ctx context.Context) (done func()) {
	store, shared := p.cfg.Store.(checkpoint.Holder)
	if !shared {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	free := p.cfg.Term.lost(cancel)
	var work sync.WaitGroup
	work.Go(func() {
		for pause.For(ctx, journal.Every) == nil {
			err := store.Hold(ctx)
			if s := p.current.Load(); s != nil && checkpoint.IsPermanent(err) {
				s.fail(err)
				return
			}
		}
	})
	return func() {
		free()
		cancel()
		work.Wait()
	}
}

// noSinkError is why there is no sink for a session.
type noSinkError struct{ err error }

func (e *noSinkError) Error() string { return e.err.Error() }
func (e *noSinkError) Unwrap() error { return e.err }

// session runs until ctx ends, or the log was found to have lost something.
func (p *Pipeline) session(ctx context.Context) error {
	to, err := p.cfg.Sink(p.epochs.Announced)
	if err != nil {
		return &noSinkError{err}
	}
	ctx, again := context.WithCancelCause(ctx)
	defer again(nil)
	s := p.begin(to, func() { again(errRespecified) })
	defer close(s.over)
	err = s.run(ctx)
	if errors.Is(context.Cause(ctx), errRespecified) && err == nil {
		err = errRespecified
	}
	return err
}
