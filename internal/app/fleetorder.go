// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
)

// plan is what becomes of a fleet by another configuration. All of it is made before anything is stopped.
type plan struct {
	members []*member
	// going are those of the members before that end, coming those that begin.
	going, coming []*member
	// specs are what members that stay read from now on.
	specs map[*member][]bridge.StreamSpec
	// broker is the server from now on.
	broker *broker
}

// take goes by another configuration. Refused says why not; then nothing has changed. Taken says that another process
// has taken over what the configuration ends: then nothing of it has begun, and the fleet must not go on.
func (f *fleet) take(ctx, outer context.Context, o *order) (refused, taken error) {
	next, err := f.plan(o)
	if err != nil {
		return err, nil
	}
	p := f.process
	before := f.broker
	if f.broker = next.broker; f.broker != nil && f.broker != before && !f.serve(ctx, outer) {
		err := errors.Join(f.broker.end(), closeStores(next.coming), ctx.Err())
		f.broker = before
		return err, nil
	}
	// From here on nothing is refused any more.
	taken = f.stopAll(next.going)
	for _, m := range next.going {
		p.metrics.Forget(m.cfg.Name)
	}
	if taken == nil {
		f.continueBy(ctx, o, next)
	}
	if err := closeStores(abandoned(next)); err != nil {
		p.log.Error("a checkpoint cannot be closed", "err", err)
	}
	f.cfg, f.members = o.cfg, next.members
	if taken == nil { // else those that come would take their checkpoints back from who has them now
		for _, m := range next.coming {
			m.keeps = false
			f.begin(ctx, m)
		}
	}
	f.tell()
	if before != f.broker {
		if err := before.end(); err != nil {
			p.log.Error("the embedded server has ended in a bad way", "err", err)
		}
	}
	return nil, taken
}

// continueBy has the members that stay go by another configuration.
func (f *fleet) continueBy(ctx context.Context, o *order, next *plan) {
	for i := range o.cfg.Pipelines {
		if m := next.members[i]; m.pipeline != nil {
			m.pipeline.SetBuffer(int64(o.cfg.BufferShare(&o.cfg.Pipelines[i])))
		}
	}
	var all sync.WaitGroup
	for m, specs := range next.specs {
		all.Go(func() { m.pipeline.Respecify(ctx, specs) })
	}
	all.Wait()
}

// abandoned returns the members that end and whose checkpoints no other one goes on with.
func abandoned(next *plan) []*member {
	return slices.DeleteFunc(slices.Clone(next.going), func(m *member) bool {
		return slices.ContainsFunc(next.coming, func(o *member) bool { return o.keeps && o.store == m.store })
	})
}

// plan makes all that an order takes.
func (f *fleet) plan(o *order) (*plan, error) {
	next := &plan{
		members: make([]*member, len(o.cfg.Pipelines)), specs: map[*member][]bridge.StreamSpec{},
		broker: f.broker,
	}
	fresh, err := f.process.embedded(o.cfg)
	if err != nil {
		return nil, err
	}
	if fresh == nil || f.broker == nil {
		next.broker = fresh
	}
	for i := range o.cfg.Pipelines {
		if err := f.planOne(o, i, next); err != nil {
			return nil, errors.Join(err, closeStores(next.coming))
		}
	}
	for _, m := range f.members {
		if !slices.Contains(next.members, m) {
			next.going = append(next.going, m)
		}
	}
	return next, nil
}

// planOne makes what becomes of pipeline i.
func (f *fleet) planOne(o *order, i int, next *plan) error {
	c := &o.cfg.Pipelines[i]
	var before *member
	if at := slices.IndexFunc(f.members, func(m *member) bool { return m.cfg.Name == c.Name }); at >= 0 {
		before = f.members[at]
	}
	changed := slices.Contains(o.diff.Changed, c.Name)
	if before != nil && before.ended {
		changed = changed || slices.Contains(o.diff.Resources, c.Name)
	}
	switch {
	case before == nil || changed:
		m, err := f.build(o.cfg, i, next.broker, before)
		if err != nil {
			return err
		}
		next.members[i], next.coming = m, append(next.coming, m)
	case slices.Contains(o.diff.Resources, c.Name):
		specs, _, err := f.process.wiring().Streams(c, before.cfg.Identity)
		if err != nil {
			return fmt.Errorf("pipeline %s: %w", c.Name, err)
		}
		next.members[i], next.specs[before] = before, specs
	default:
		next.members[i] = before
	}
	return nil
}

// order has the fleet go by another configuration, and returns why it does not. Ended is true where the fleet has ended
// before it could.
func (f *fleet) order(ctx context.Context, cfg *config.Config, diff difference) (ended bool, refused error) {
	o := &order{cfg: cfg, diff: diff, refused: make(chan error, 1)}
	select {
	case f.orders <- o:
		return false, <-o.refused
	case <-f.over:
		return true, nil
	case <-ctx.Done():
		return true, nil
	}
}
