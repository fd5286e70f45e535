// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
	"github.com/kube-eventbridge/kube-eventbridge/internal/wiring"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats/embedded"
)

// fleet is the pipelines that run, as a configuration says, and the server that they publish to if it is one of the
// process itself.
type fleet struct {
	process *process
	uid     string
	// term is nil where no other process can lead.
	term *bridge.Term
	// orders have other configurations to go by; over is closed when the fleet has ended.
	orders chan *order
	over   chan struct{}
	// failed has why the server has ended. noticed says that a pipeline has.
	failed  chan error
	noticed chan struct{}
	// retryDelay and maxRetryDelay are between two tries of a pipeline that has ended.
	retryDelay, maxRetryDelay time.Duration

	// What follows is of who runs the fleet.
	cfg     *config.Config
	members []*member
	broker  *broker
}

// order is another configuration for a fleet that runs.
type order struct {
	cfg  *config.Config
	diff difference
	// refused has why the fleet goes on as before; nil where it goes by cfg.
	refused chan error
}

// member is one pipeline.
type member struct {
	cfg   bridge.Config
	store wiring.Store
	// keeps: the store is that of another member, which has to end first.
	keeps    bool
	pipeline *bridge.Pipeline
	stop     context.CancelFunc
	done     chan struct{}
	// err is why it does not run: it has ended, or could not begin.
	err error
	// ended: err has been told. It is tried again at that time, after that delay.
	ended bool
	again time.Time
	delay time.Duration
	began time.Time
	// first: it began with the fleet.
	first bool
}

// A pipeline that has ended is tried again after a minute, and then less and less often.
const (
	retryDelay, maxRetryDelay = time.Minute, 15 * time.Minute
)

// broker is an embedded server.
type broker struct {
	server *embedded.Server
	stop   context.CancelFunc
	done   chan struct{}
	err    error
}

// embedded returns the server of a broker; nil if there is none.
func (b *broker) embedded() *embedded.Server {
	if b == nil {
		return nil
	}
	return b.server
}

// newFleet opens the checkpoints of a configuration's pipelines; whoever calls it has to run the fleet.
// The directories of checkpoints in files are safe until the fleet has ended, as each is open in
// one process only; those in Kafka and NATS are opened when they are read. A checkpoint that cannot be opened is an
// error only if none can.
func (p *process) newFleet(uid string, cfg *config.Config, term *bridge.Term) (*fleet, error) {
	f := &fleet{
		process: p, uid: uid, cfg: cfg, term: term, orders: make(chan *order), over: make(chan struct{}),
		failed: make(chan error, 1), noticed: make(chan struct{}, 1), retryDelay: retryDelay, maxRetryDelay: maxRetryDelay,
	}
	var err error
	if f.broker, err = p.embedded(cfg); err != nil {
		return nil, err
	}
	for i := range cfg.Pipelines {
		m, err := f.build(cfg, i, f.broker, nil)
		var unopened *storeError
		if errors.As(err, &unopened) {
			m.err, err = unopened.error, nil
		}
		if err != nil {
			return nil, errors.Join(err, closeStores(f.members))
		}
		f.members = append(f.members, m)
	}
	if err := f.allEnded(); err != nil {
		return nil, errors.Join(err, closeStores(f.members))
	}
	return f, nil
}

// storeError is of a pipeline that is as it should be, but for its checkpoint.
type storeError struct{ error }

// Unwrap returns why.
func (e *storeError) Unwrap() error { return e.error }

// allEnded returns why the pipelines do not run; nil if one does.
func (f *fleet) allEnded() error {
	var all []error
	for _, m := range f.members {
		if !m.over() || m.err == nil {
			return nil
		}
		all = append(all, m.err)
	}
	return errors.Join(all...)
}

// build makes pipeline i of a configuration. Before is the member that it takes the place of, or nil: the checkpoint
// stays open where it is the same. With a [storeError] the member is whole, but for its checkpoint.
func (f *fleet) build(cfg *config.Config, i int, broker *broker, before *member) (*member, error) {
	p, m, c := f.process, &member{}, &cfg.Pipelines[i]
	var err error
	if m.cfg, err = p.pipeline(cfg, i, f.uid, broker); err != nil {
		return nil, err
	}
	if before != nil && before.store != nil && sameCheckpoint(c, pipelineOf(f.cfg, c.Name)) {
		m.store, m.keeps = before.store, true
	} else if m.store, err = p.store(cfg, i, m.cfg.Identity); err != nil {
		var input *exit.InputError
		if errors.As(err, &input) {
			return nil, err
		}
		return m, &storeError{err}
	}
	m.cfg.Store, m.cfg.Term = m.store, f.term
	return m, nil
}

func pipelineOf(c *config.Config, name string) *config.Pipeline {
	i := slices.IndexFunc(c.Pipelines, func(p config.Pipeline) bool { return p.Name == name })
	return &c.Pipelines[i]
}

// closeStores closes the checkpoints that no other pipeline has.
func closeStores(members []*member) error {
	var all errgroup.Group // at once, since each waits for its broker
	for _, m := range members {
		if m.store != nil && !m.keeps {
			all.Go(m.store.Close)
		}
	}
	return all.Wait()
}

// run runs the fleet until ctx ends, or no pipeline can go on. A pipeline that has to end ends alone, and is tried
// again.
func (f *fleet) run(ctx context.Context) (err error) {
	defer close(f.over)
	// The server outlives the pipelines, which drain into it.
	outer, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if f.serve(ctx, outer) {
		for _, m := range f.members {
			if m.first = true; m.err == nil {
				f.begin(ctx, m)
			}
		}
		f.tell()
		err = f.obey(ctx, outer)
	}
	cancel()
	for _, m := range f.members {
		if m.done != nil {
			<-m.done
			if err == nil && !m.ended {
				err = m.err
			}
		}
		f.process.metrics.Hide(m.cfg.Name)
	}
	f.process.setPipelines(nil)
	if gone := f.broker.end(); err == nil {
		err = gone
	}
	for _, m := range f.members {
		m.keeps = false
	}
	return errors.Join(err, closeStores(f.members))
}

// obey takes orders until ctx ends, the term is lost, or something must not go on, which it returns.
func (f *fleet) obey(ctx, outer context.Context) error {
	var lost <-chan struct{}
	if f.term != nil {
		lost = f.term.Held.Done()
	}
	for {
		if err := f.note(); err != nil {
			return err
		}
		select {
		case <-f.noticed:
		case <-f.nextTry():
			f.retry(ctx)
		case o := <-f.orders:
			refused, taken := f.take(ctx, outer, o)
			o.refused <- refused
			if taken != nil {
				return taken
			}
		case err := <-f.failed:
			return err
		case <-lost:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// begin runs a member until ctx ends, or it is stopped.
func (f *fleet) begin(ctx context.Context, m *member) {
	ctx, m.stop = context.WithCancel(ctx)
	m.pipeline, m.done, m.began = bridge.New(m.cfg), make(chan struct{}), time.Now()
	go func() { // whoever waits for done owns it
		err := m.pipeline.Run(ctx)
		if errors.Is(err, context.Canceled) && ctx.Err() != nil {
			err = nil // it had no time to begin
		}
		m.err = err
		close(m.done) // before it is noticed, or who looks then sees one that runs
		if err != nil {
			select {
			case f.noticed <- struct{}{}:
			default: // that is known already
			}
		}
	}()
}

func (f *fleet) fail(err error) {
	select {
	case f.failed <- err:
	default: // it ends already
	}
}

// serve runs the server, if there is one, and waits until clients can connect; false if ctx ends, or the server, before
// that.
func (f *fleet) serve(ctx, outer context.Context) bool {
	b := f.broker
	if b == nil {
		return true
	}
	outer, b.stop = context.WithCancel(outer)
	b.done = make(chan struct{})
	go func() { // whoever waits for done owns it
		defer close(b.done)
		b.err = b.server.Run(outer)
		select {
		case <-b.server.Ready():
			if b.err != nil {
				f.fail(b.err)
			}
		default: // whoever waits for it to be ready finds out
		}
	}()
	select {
	case <-ctx.Done():
		return false
	case <-b.done:
		return false
	case <-b.server.Ready():
	}
	f.process.sayWhere(b.server)
	return true
}

// end stops the server, and returns why it had ended before if it had.
func (b *broker) end() error {
	if b == nil || b.done == nil {
		return nil
	}
	b.stop()
	<-b.done
	return b.err
}

// tell has the process show the pipelines.
func (f *fleet) tell() {
	var all []*bridge.Pipeline
	for _, m := range f.members {
		if m.pipeline != nil {
			all = append(all, m.pipeline)
		}
	}
	f.process.setPipelines(all)
}

// stopAll stops members, and waits for what they drain. The error says that another process has taken one of them over:
// then the fleet must not go on.
func (f *fleet) stopAll(members []*member) error {
	var all sync.WaitGroup
	for _, m := range members {
		if m.ended {
			continue
		}
		all.Go(func() {
			m.stop()
			<-m.done
			if m.err != nil && !checkpoint.IsTaken(m.err) {
				f.process.log.Error("a pipeline has ended in a bad way; nothing is lost that the checkpoint has not", "pipeline",
					m.cfg.Name, "err", m.err)
			}
		})
	}
	all.Wait()
	for _, m := range members {
		if checkpoint.IsTaken(m.err) && !m.ended {
			return m.err
		}
	}
	return nil
}
