// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// StreamSpec is one resource in one scope as a pipeline wants it.
type StreamSpec struct {
	// Resource is what the user calls it; what the API server calls it is found out while running.
	Resource                                string
	Namespace, LabelSelector, FieldSelector string
	// Latest allows changes of one object that are still waiting to be folded into one.
	Latest bool
	// SkipSnapshot: what exists at the start is known, not published.
	SkipSnapshot bool
	Encoding     encode.Config
}

// Config says what a pipeline consists of. All fields are needed except Drain and Log.
type Config struct {
	Name      string
	Streams   []StreamSpec
	Client    *source.Client
	Discovery *source.Discovery
	Sink      sink.Sink
	// Store must belong to this pipeline and cluster.
	Store    checkpoint.Store
	Identity checkpoint.Identity
	// Buffer bounds the bytes between the API server and the broker's acknowledgement.
	Buffer  int64
	Metrics *Metrics
	// Drain bounds how long a stop waits for acknowledgements: 20 s if zero.
	Drain time.Duration
	Log   *slog.Logger
}

const (
	workers       = 2
	commitEvery   = time.Second
	commitTimeout = 30 * time.Second
	defaultDrain  = 20 * time.Second
	// logEvery is how often a stream logs what may be true of each of its events; the metrics count them all.
	logEvery = 10 * time.Second
)

// SpecError is what the API server's answers show to be wrong with a pipeline's streams: they have to be configured differently.
type SpecError struct{ err error }

// Error implements error.
func (e *SpecError) Error() string { return e.err.Error() }

// Unwrap returns what is wrong.
func (e *SpecError) Unwrap() error { return e.err }

// Pipeline publishes the changes of its streams to its sink.
type Pipeline struct {
	cfg       Config
	name      string
	log       *slog.Logger
	queue     workqueue.TypedDelayingInterface[*object]
	budget    *budget
	memory    *memory
	publisher sink.Publisher
	retrier   *sink.Retrier
	busy      busyness
	broker    broker
	// debug: every event is logged.
	debug bool
	// saved is when the last commit succeeded, in nanoseconds since 1970.
	saved atomic.Int64
	state *checkpoint.State
	// committing is held during a commit.
	committing sync.Mutex

	// mu guards what follows.
	mu      sync.Mutex
	streams []*stream
	// unknown are the resources that the API server does not know, and what it says of them.
	unknown map[string]error
}

// New returns a pipeline that does nothing until Run.
func New(c Config) *Pipeline {
	p := &Pipeline{cfg: c, name: c.Name, log: c.Log, budget: newBudget(c.Buffer), memory: newMemory(), unknown: map[string]error{}}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	p.log = p.log.With("pipeline", c.Name)
	p.debug = p.log.Enabled(context.Background(), slog.LevelDebug)
	if p.cfg.Drain == 0 {
		p.cfg.Drain = defaultDrain
	}
	p.queue = workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[*object]{})
	retries := c.Metrics.retries.WithLabelValues(c.Name)
	p.retrier = sink.Retry(c.Sink, sink.Policy{OnRetry: func(*sink.Message, error) { retries.Inc() }})
	p.publisher = p.retrier
	c.Metrics.add(p)
	return p
}

// errDelivery ends the reading where what delivers has failed.
var errDelivery = errors.New("delivery has failed")

// Run publishes until ctx ends; then it stops reading, waits at most the drain time for what is under way, commits, and returns
// nil. It returns an error where something must not be used: a checkpoint, a stream of the broker, a history.
// Run may be called once.
func (p *Pipeline) Run(ctx context.Context) error {
	defer p.queue.ShutDown()
	state, err := p.cfg.Store.Load(ctx)
	if err != nil {
		return fmt.Errorf("pipeline %s: %w", p.name, err)
	}
	p.state = state
	p.saved.Store(time.Now().UnixNano())

	// What delivers outlives what reads, so that what was read can be delivered.
	deliver, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	delivery, failed := errgroup.WithContext(deliver)
	p.deliver(failed, delivery)

	reading, reads := errgroup.WithContext(ctx)
	reading.Go(func() error {
		select {
		case <-failed.Done():
			return errDelivery // which says why itself
		case <-reads.Done():
			return nil
		}
	})
	for i := range p.cfg.Streams {
		reading.Go(func() error { return p.read(reads, &p.cfg.Streams[i]) })
	}
	err = reading.Wait()
	if err == nil {
		p.drain(failed)
	}
	p.queue.ShutDown()
	stop()
	if errors.Is(err, errDelivery) {
		err = nil
	}
	err = errors.Join(err, p.ended(delivery.Wait()))
	if commitErr := p.lastCommit(ctx); commitErr != nil {
		err = errors.Join(err, commitErr)
	}
	if err != nil {
		return fmt.Errorf("pipeline %s: %w", p.name, err)
	}
	return nil
}

func (p *Pipeline) deliver(ctx context.Context, g *errgroup.Group) {
	g.Go(func() error { return p.cfg.Sink.Run(ctx) })
	g.Go(func() error { return p.retrier.Run(ctx) })
	g.Go(func() error { return p.commits(ctx) })
	for range workers {
		g.Go(func() error {
			p.work(ctx)
			return nil
		})
	}
	g.Go(func() error {
		// A failure of the sink ends the workers too.
		<-ctx.Done()
		p.queue.ShutDown()
		return nil
	})
}

// ended leaves out what only says that the pipeline was stopped.
func (p *Pipeline) ended(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// read finds out what the resource is, and reads it.
func (p *Pipeline) read(ctx context.Context, spec *StreamSpec) error {
	resource, err := p.resolve(ctx, spec)
	if err != nil {
		return p.ended(err)
	}
	s, err := p.open(spec, source.Stream{
		Resource: resource, Namespace: spec.Namespace, LabelSelector: spec.LabelSelector, FieldSelector: spec.FieldSelector,
	})
	if err != nil {
		return err
	}
	reader := source.Reader{Client: p.cfg.Client, Stream: s.Stream, Feed: s, History: s, Observer: s.status}
	return reader.Run(ctx)
}

// resolve asks until the API server knows the resource. Its CustomResourceDefinition may be yet to come.
func (p *Pipeline) resolve(ctx context.Context, spec *StreamSpec) (source.Resource, error) {
	delay := 500 * time.Millisecond
	for tries := 0; ; tries++ {
		r, err := p.cfg.Discovery.Resolve(spec.Resource)
		if err == nil {
			return r, p.scoped(r, spec)
		}
		if tries%10 == 0 {
			p.log.Warn("resource is not known yet", "resource", spec.Resource, "err", err)
		}
		p.unresolved(spec.Resource, err)
		if err := pause.For(ctx, delay); err != nil {
			return r, err
		}
		delay = min(2*delay, 5*time.Second)
	}
}

// scoped refuses a namespace for a resource that has none: the API server would answer 404 for ever.
func (p *Pipeline) scoped(r source.Resource, spec *StreamSpec) error {
	p.unresolved(spec.Resource, nil)
	if spec.Namespace != "" && !r.Namespaced {
		return &SpecError{fmt.Errorf("resource %s is cluster-scoped and cannot be read in namespace %q: remove its namespaces", r, spec.Namespace)}
	}
	return nil
}

// open makes the far side of a stream from what the store has of it. It refuses a stream that has objects in common with another:
// two names of a resource are known to be one only here.
func (p *Pipeline) open(spec *StreamSpec, at source.Stream) (*stream, error) {
	name := at.Name()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.streams {
		sameNamespace := o.Namespace == "" || at.Namespace == "" || o.Namespace == at.Namespace
		if o.Group == at.Group && o.Stream.Resource.Resource == at.Resource.Resource && sameNamespace {
			return nil, &SpecError{fmt.Errorf("resources %s and %s have objects in common (streams %s and %s), "+
				"and an object belongs to one stream of a pipeline: remove one, or give them different namespaces",
				o.spec.Resource, spec.Resource, o.name, name)}
		}
	}
	saved := p.state.Streams[name]
	s := &stream{
		Stream: at, name: name, spec: spec, pipeline: p,
		encoder: encode.New(at, spec.Encoding),
		metrics: p.cfg.Metrics.stream(p.name, name),
		tracker: checkpoint.NewTracker(saved.Position),
		ledger:  checkpoint.NewLedger(p.state.Rows[name]),
		pending: map[string]*object{},
		saved:   saved, fingerprint: fingerprint(at),
	}
	for _, o := range []*rate.Sometimes{&s.often.unencodable, &s.often.contested, &s.often.rejected, &s.often.refused} {
		o.Interval = logEvery
	}
	if saved.Fingerprint != s.fingerprint {
		s.saved.Unannounced = checkpoint.Snapshot{}
	}
	delete(p.state.Rows, name)
	if len(p.streams)+1 == len(p.cfg.Streams) {
		p.state.Rows = nil // the rest is of streams that are not read any more; the store keeps it
	}
	s.status = &status{stream: s}
	p.streams = append(p.streams, s)
	s.announceSnapshot(true)
	return s, nil
}

func (p *Pipeline) opened() []*stream {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*stream(nil), p.streams...)
}

// drain waits until everything that was read is in the log, the time for it is up, or delivery has failed.
func (p *Pipeline) drain(failed context.Context) {
	ctx, cancel := context.WithTimeout(failed, p.cfg.Drain)
	defer cancel()
	if n := p.busy.count(); n > 0 {
		p.log.Info("stopping: waiting for the broker to acknowledge what was read", "objects", n, "at most", p.cfg.Drain.String())
	}
	if err := p.busy.wait(ctx); err != nil {
		p.log.Warn("stopped before everything was acknowledged; the rest follows after the next start", "objects", p.busy.count())
	}
}
