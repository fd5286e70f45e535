// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/bodies"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/contents"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/deletions"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/guard"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/listing"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/observed"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/resyncs"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/selection"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/waiting"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/write"
	"github.com/kube-eventbridge/kube-eventbridge/source/catalog"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
)

// Replica keeps objects of a target cluster in the state that a log describes. Its methods may be called while it runs.
type Replica struct {
	cfg Config

	// shared: objects of the log share subjects.
	shared bool

	mu  sync.Mutex
	now *run // nil while it does not run
	// stopped is why it does not run yet, or not any more.
	stopped Failures
}

// New returns a replica that does nothing until Run.
func New(cfg Config) *Replica {
	cfg.withDefaults()
	return &Replica{cfg: cfg}
}

// beginAgain is why a run ends so that the log is read from its beginning.
type beginAgain string

func (b beginAgain) Error() string { return string(b) }

const (
	errReplaced beginAgain = "the log was replaced by a new one"
	// errRewound: it may have again what the replica has deleted and forgotten.
	errRewound beginAgain = "the target's versions begin again"
	// errForgotten: the log may still tell that it is gone.
	errForgotten beginAgain = "the target has an object again that was forgotten"
	// errShared: the newest event of each subject was read, and no other.
	errShared beginAgain = "objects share subjects"
)

// errOwnSource ends a replica that would write the objects that it reads.
var errOwnSource = errors.New("the target is the cluster that the log is of")

// Run replicates until ctx ends, and returns nil then. It returns an error where the log can never be read, or
// credentials or addresses are of no use. Whatever fails otherwise is tried again, less and less often, without end: a
// broker or an API server may be away for as long as it likes.
func (p *Replica) Run(ctx context.Context) error {
	p.setStopped(Failures{})
	for {
		err := p.runOnce(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if !p.again(err) {
			p.setStopped(Failures{Ended: err})
			return err
		}
	}
}

func (p *Replica) setStopped(why Failures) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = why
}

// again reports whether the replica has to begin again.
func (p *Replica) again(err error) bool {
	p.shared = p.shared || errors.Is(err, errShared)
	begins := errors.As(err, new(beginAgain))
	if begins {
		p.cfg.Logger.Info("the log is read from its beginning", slog.Any("reason", err))
	}
	return begins
}

func (p *Replica) runOnce(ctx context.Context) error {
	r, err := p.begin(ctx, p.loadState)
	if err != nil {
		return err
	}
	defer r.source.Close()
	p.set(r)
	defer p.set(nil)
	return r.run(ctx)
}

// begin opens the log. Who calls it closes that.
func (p *Replica) begin(ctx context.Context, load func(context.Context) (guard.Stops, error)) (r *run, err error) {
	opened, err := p.cfg.OpenLog(!p.shared)
	if err != nil {
		return nil, err
	}
	stops, err := load(ctx)
	if err == nil {
		r, err = newRun(&p.cfg, opened, stops)
	}
	if err != nil {
		opened.Close()
		return nil, err
	}
	r.perObject = p.cfg.HasOwnSubject != nil && !p.shared
	return r, nil
}

func (p *Replica) set(r *run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = r
}

// run is a replica from the beginning of a log on.
type run struct {
	cfg *Config
	log *slog.Logger

	source     Log
	selection  *selection.Selection
	targets    *targets
	target     *write.Target
	namespaces *catalog.Namespaces
	known
	guards
	lookups
	stage
	health  *health.Health
	counts  *health.Counts
	pruning sync.WaitGroup
	// failed has what ends the run.
	failed chan error
}

// known is what is known of objects.
type known struct {
	table       *keys.Table
	bodies      *bodies.Bodies
	outstanding *waiting.Outstanding
	parked      *waiting.Parked
	contests    *waiting.Contests
	// observer tells which objects of the target are the replica's.
	observer observed.Observer
}

// guards stop what could wipe the target by mistake.
type guards struct {
	deletes   *guard.Deletes
	deletions *deletions.Deletions
	epochs    *guard.Epochs
	resyncs   *resyncs.Resyncs
	keeper    *guard.Keeper
}

// lookups say which keys are looked at, and when.
type lookups struct {
	queue *waiting.Queue
	// said bounds how often it is logged that an object waits.
	said rate.Sometimes
	// owners has a value if there may be owners that were not there when they were looked for.
	owners chan struct{}
	// contents finds what would go with an object.
	contents *contents.Finder
}

// stage is how far the log is read.
type stage struct {
	// began is when the run did.
	began time.Time
	// perObject: the newest event of each subject is read, so that an object needs one of its own.
	perObject bool
	// caughtUp: the log was read up to the end that it had at the start. It is used by who reads the log; begun tells
	// others.
	caughtUp bool
	begun    chan struct{}
	// heard is when the run began, or the log told the last message, in nanoseconds since 1970.
	heard atomic.Int64
	// compares: nothing is written.
	compares bool
}

func newRun(cfg *Config, opened Log, stops guard.Stops) (*run, error) {
	client, err := kube.NewClient(cfg.Target)
	if err != nil {
		return nil, err
	}
	offered, err := catalog.New(cfg.Target, client, catalog.Config{Watch: true, Log: cfg.Logger})
	if err != nil {
		return nil, err
	}
	namespaces, err := catalog.NewNamespaces(cfg.Target)
	if err != nil {
		return nil, err
	}
	target, err := write.New(cfg.Target)
	if err != nil {
		return nil, err
	}
	finder, err := contents.New(cfg.Target)
	if err != nil {
		return nil, err
	}
	deletes := guard.NewDeletes(cfg.Limit, stops.Deletes, stops.HeldDeletes)
	epochs := guard.NewEpochs(cfg.Follow, stops.Epoch, stops.HeldEpoch)
	table, streams := keys.New(cfg.remaps()), listing.New()
	keeper := guard.NewKeeper(cfg.State, stops, deletes, epochs)
	r := &run{
		cfg: cfg, log: cfg.Logger, source: opened, target: target, namespaces: namespaces,
		selection: selection.New(cfg.Cluster, cfg.Pipeline, cfg.Entries),
		known: known{
			table: table, bodies: bodies.New(opened), outstanding: waiting.NewOutstanding(),
			parked:   waiting.NewParked(),
			contests: waiting.NewContests(),
			observer: observed.Observer{Replica: cfg.Name, Cluster: cfg.Cluster},
		},
		guards: guards{
			deletes: deletes, epochs: epochs, resyncs: resyncs.New(), keeper: keeper,
			deletions: deletions.New(table, streams, deletes, cfg.Config, keeper.Stored),
		},
		lookups: lookups{
			queue: waiting.NewQueue(), said: rate.Sometimes{First: 20, Interval: 10 * time.Second},
			owners: make(chan struct{}, 1), contents: finder,
		},
		stage:  stage{began: time.Now(), begun: make(chan struct{})},
		health: health.New(), counts: health.NewCounts(), failed: make(chan error, 1),
	}
	r.targets = newTargets(r, client, offered, streams)
	r.heard.Store(r.began.UnixNano())
	return r, nil
}

// loadState waits for the stops of before.
func (p *Replica) loadState(ctx context.Context) (guard.Stops, error) {
	defer p.setStopped(Failures{})
	for backoff := (kube.Backoff{}); ; {
		stops, err := p.cfg.State.Load(ctx)
		if err == nil {
			return stops, nil
		}
		p.setStopped(Failures{Starting: err})
		p.cfg.Logger.Warn("the replica waits for its state", slog.Any("error", err))
		if err := backoff.Wait(ctx, err); err != nil {
			return guard.Stops{}, err
		}
	}
}

func (r *run) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.targets.catalog.Run(ctx) })
	group.Go(func() error { return r.namespaces.Run(ctx) })
	group.Go(func() error { return r.read(ctx) })
	group.Go(func() error { return r.ends(ctx) })
	group.Go(func() error { r.wake(ctx); return nil })
	group.Go(func() error { r.keep(ctx); return nil })
	for range r.cfg.Workers {
		group.Go(func() error { r.work(ctx); return nil })
	}
	group.Go(func() error { <-ctx.Done(); r.queue.ShutDown(); return nil })
	err := group.Wait()
	r.pruning.Wait()
	r.targets.reading.Wait()
	return err
}

// end has the run end with an error.
func (r *run) end(err error) {
	select {
	case r.failed <- err:
	default: // another error ends it
	}
}

// ends returns what ends the run; nil if ctx does.
func (r *run) ends(ctx context.Context) error {
	select {
	case err := <-r.failed:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-r.failed: // a comparison ends by itself
		return err
	default:
		return nil
	}
}

// read reads the log until ctx ends.
func (r *run) read(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := r.source.Read(ctx, event.Reading{
		Span: event.Span{Start: event.Start{Newest: true}, Follow: true}, Copies: true,
		// What a message begins outlives the connection that has brought it.
		Each: func(_ context.Context, m event.Message) error {
			if err := context.Cause(ctx); err != nil {
				return err // of the next log
			}
			r.heard.Store(time.Now().UnixNano())
			return learning{r}.learn(ctx, m)
		},
		Counts: func(event.Message) bool { return true },
		CaughtUp: func() {
			if ctx.Err() == nil {
				r.catchUp(ctx)
			}
		},
		Replaced: func() { cancel(errReplaced) }, // what was read of the old one is of no use
	})
	switch {
	case errors.Is(context.Cause(ctx), errReplaced):
		return errReplaced
	case ctx.Err() == nil && err != nil:
		return fmt.Errorf("read the log: %w", err)
	default:
		return nil
	}
}

// catchUp begins to write: the log was read up to the end that it had.
func (r *run) catchUp(ctx context.Context) {
	rows, ours := r.table.Len()
	r.log.Info("the log was read up to its end", slog.Int("objects", rows), slog.Int("written_before", ours))
	if rows == 0 {
		r.log.Warn("the log has no object of the replica: from names another cluster or pipeline, or nothing was published; "+
			"validate --cluster says what the log has", slog.String("cluster", r.cfg.Cluster),
			slog.String("pipeline", r.cfg.Pipeline))
	}
	r.caughtUp = true
	r.deletes.CatchUp()
	r.checkEpochs(nil)
	close(r.begun)
	r.prune(ctx)
}

// lookAtAll has all keys of a resource looked at that streams of the target have: more is known of them now. Namespaces
// stand for the streams.
func (r *run) lookAtAll(res *selection.Resource, namespaces ...string) {
	if len(namespaces) == 0 {
		return
	}
	for id, row := range r.table.Of(res.Number) {
		if slices.ContainsFunc(namespaces, func(namespace string) bool { return has(res, namespace, row.Key) }) {
			r.queue.Add(id)
		}
	}
}

// work reconciles keys until the queue is shut down.
func (r *run) work(ctx context.Context) {
	select {
	case <-r.begun:
	case <-ctx.Done():
		return
	}
	for {
		id, down := r.queue.Get()
		if down {
			return
		}
		if ctx.Err() == nil {
			r.requeue(id, r.reconcile(ctx, id))
		}
		r.queue.Done(id)
	}
}

func (r *run) requeue(id keys.ID, res result) {
	switch res {
	case settled:
		r.queue.Forget(id, waiting.Retry)
		r.queue.Forget(id, waiting.Look)
	case again:
		r.queue.Add(id)
	case later:
		r.queue.AddAfter(id, waiting.Retry)
	case waits:
		r.queue.Forget(id, waiting.Retry)
	case waitsAWhile:
		r.queue.Forget(id, waiting.Retry)
		r.queue.AddAfter(id, waiting.Look)
	}
}

// partLog is the part of the health that is not a stream of the target.
const partLog = "log"

// hasBegun reports whether the log was read up to the end that it had at the start.
func (r *run) hasBegun() bool {
	select {
	case <-r.begun:
		return true
	default:
		return false
	}
}

// keepEvery is how often the replica says to the broker how far it is, and forgets what nothing needs.
const keepEvery = time.Second

// leftEvery is how many times that is between two looks at what is left of released deletes.
const leftEvery = 10

// keep tells the broker how far the replica is, and forgets what is long past.
func (r *run) keep(ctx context.Context) {
	next := time.Now().Add(r.cfg.Remember)
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepEvery)
		defer cancel()
		r.saveLeft(last)
	}()
	for n := 1; pause.For(ctx, keepEvery) == nil; n++ {
		if n%leftEvery == 0 {
			r.saveLeft(ctx)
		}
		if now := time.Now(); now.After(next) {
			next = now.Add(r.cfg.Remember)
			r.table.Sweep(now.Add(-guard.Window))
			r.contests.Sweep(now)
		}
		marks, _, _ := r.outstanding.State()
		if len(marks) == 0 {
			continue
		}
		if err := r.source.Acknowledge(ctx, marks); ctx.Err() == nil {
			r.health.Set(partLog, err)
		}
	}
}
