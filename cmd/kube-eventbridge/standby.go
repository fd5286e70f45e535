// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// standby records, for each pipeline, what the process that leads has not committed yet. Its methods that begin and end something are called one after the other.
type standby struct {
	process *process
	uid     string
	// open returns what reads a pipeline's checkpoint without taking it over.
	open func(*config.Pipeline, checkpoint.Identity) (checkpoint.Peeker, error)

	mu sync.Mutex
	// of are those of the pipelines of a configuration, in its order.
	of []*recording
	// failed is why the leader's checkpoint of a pipeline could not be read the last time.
	failed map[string]error
}

// recording is that of one pipeline.
type recording struct {
	cfg   *config.Pipeline
	specs []bridge.StreamSpec
	peek  *renewedPeeker
	// peeking, if not nil, looks at the checkpoint, and keeping keeps holds.
	peeking, keeping *task
	// The standby's mu guards what follows. Holds are from begin to end.
	share int64
	holds *source.Holds
}

// task is a goroutine.
type task struct {
	stop context.CancelFunc
	done chan struct{}
}

// runTask runs f until its context ends, or the task does.
func runTask(ctx context.Context, f func(context.Context)) *task {
	ctx, stop := context.WithCancel(ctx)
	t := &task{stop, make(chan struct{})}
	go func() { // whoever ends it waits for it
		defer close(t.done)
		f(ctx)
	}()
	return t
}

// end stops the task, which may be nil, and waits for it.
func (t *task) end() {
	if t != nil {
		t.stop()
		<-t.done
	}
}

// follow records by a configuration until end. What was recorded of a pipeline that keeps its positions where it did stays. Where it cannot, as files of secrets are not there, the error says why, and all is as
// before.
func (s *standby) follow(ctx context.Context, cfg *config.Config) error {
	next, err := s.next(cfg)
	if err != nil {
		return err
	}
	for _, r := range s.fresh(next) {
		if _, _, err = s.process.streams(r.cfg, s.process.identity(r.cfg, s.uid)); err == nil {
			err = r.peek.renew()
		}
		if err != nil {
			return errors.Join(fmt.Errorf("pipeline %s: %w", r.cfg.Name, err), closePeekers(s.fresh(next)))
		}
	}
	s.become(ctx, cfg, next)
	return nil
}

// resume is as follow, but for a configuration that has been gone by: what cannot be reached now is tried again.
func (s *standby) resume(ctx context.Context, cfg *config.Config) error {
	next, err := s.next(cfg)
	if err == nil {
		s.become(ctx, cfg, next)
	}
	return err
}

// next returns the recordings of a configuration; those of pipelines that say the same are those of before.
func (s *standby) next(cfg *config.Config) (all []*recording, err error) {
	for i := range cfg.Pipelines {
		c := &cfg.Pipelines[i]
		if same := slices.IndexFunc(s.of, func(r *recording) bool { return reflect.DeepEqual(r.cfg, c) }); same >= 0 {
			all = append(all, s.of[same])
			continue
		}
		id := s.process.identity(c, s.uid)
		r := &recording{cfg: c, peek: &renewedPeeker{open: func() (checkpoint.Peeker, error) { return s.open(c, id) }}}
		for i := range c.Resources {
			specs, err := scoped(&c.Resources[i])
			if err != nil {
				return nil, fmt.Errorf("pipeline %s: %w", c.Name, err)
			}
			r.specs = append(r.specs, specs...)
		}
		all = append(all, r)
	}
	return all, nil
}

// fresh returns those that were not there before.
func (s *standby) fresh(next []*recording) []*recording {
	return slices.DeleteFunc(slices.Clone(next), func(r *recording) bool { return slices.Contains(s.of, r) })
}

// become has next recorded from now on.
func (s *standby) become(ctx context.Context, cfg *config.Config, next []*recording) {
	for _, r := range s.of {
		if slices.Contains(next, r) {
			continue
		}
		r.peeking.end()
		heir := slices.IndexFunc(next, func(o *recording) bool { return o.cfg.Name == r.cfg.Name && o.cfg.SameCheckpoint(r.cfg) })
		if heir >= 0 {
			next[heir].keeping, next[heir].holds = r.keeping, r.holds
		} else {
			r.keeping.end()
		}
		if err := r.peek.Close(); err != nil {
			s.process.log.Warn("what has read a checkpoint cannot be closed", "err", err)
		}
		s.told(r.cfg.Name, nil) // whoever goes on with it says so again
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of = next
	for _, r := range s.of {
		r.share = int64(cfg.StandbyShare(r.cfg))
		s.begin(ctx, r)
	}
}

// begin records a pipeline from now on, unless it is recorded already; the caller holds mu.
func (s *standby) begin(ctx context.Context, r *recording) {
	if r.holds == nil {
		h := source.NewHolds(s.process.client, s.process.watches, r.share)
		r.holds = h
		r.keeping = runTask(context.WithoutCancel(ctx), func(ctx context.Context) { _ = h.Run(ctx) }) // it ends with its context, or when there is nothing left
	}
	h := r.holds
	h.SetLimit(r.share)
	if r.peeking == nil {
		r.peeking = runTask(ctx, func(ctx context.Context) {
			bridge.StandBy(ctx, r.specs, r.peek, h, func(err error) { s.told(r.cfg.Name, err) })
		})
	}
}

// handOver returns what was recorded for each pipeline. It goes on being recorded until whoever reads it has caught up, or end.
func (s *standby) handOver() (all []*source.Holds) {
	for _, r := range s.of {
		r.peeking.end()
		r.peeking = nil
		all = append(all, r.holds)
	}
	return all
}

// end records nothing any more.
func (s *standby) end() {
	s.handOver()
	for _, r := range s.of {
		r.keeping.end()
		r.keeping = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.of {
		r.holds = nil
	}
	clear(s.failed)
}

// close ends all.
func (s *standby) close() error {
	s.end()
	return closePeekers(s.of)
}

func closePeekers(all []*recording) (err error) {
	for _, r := range all {
		err = errors.Join(err, r.peek.Close())
	}
	return err
}

// peeker returns what reads a pipeline's checkpoint, which is one that several processes reach, without taking it over.
func peeker(c *config.Pipeline, id checkpoint.Identity) (checkpoint.Peeker, error) {
	if c.Checkpoint.NATS != nil {
		return natsPeeker(c, id)
	}
	return kafkaPeeker(c, id)
}

// renewedPeeker makes another one after each failure: files of secrets may have changed.
type renewedPeeker struct {
	open func() (checkpoint.Peeker, error)
	now  checkpoint.Peeker
}

func (p *renewedPeeker) renew() (err error) {
	p.now, err = p.open()
	return err
}

// Peek implements checkpoint.Peeker.
func (p *renewedPeeker) Peek(ctx context.Context) (map[string]checkpoint.Stream, error) {
	if p.now == nil {
		if err := p.renew(); err != nil {
			return nil, err
		}
	}
	streams, err := p.now.Peek(ctx)
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return streams, nil
}

// Close implements checkpoint.Peeker.
func (p *renewedPeeker) Close() error {
	if p.now == nil {
		return nil
	}
	defer func() { p.now = nil }()
	return p.now.Close()
}

func (s *standby) told(pipeline string, err error) {
	s.mu.Lock()
	before := s.failed[pipeline]
	if err == nil {
		delete(s.failed, pipeline)
	} else {
		s.failed[pipeline] = err
	}
	s.mu.Unlock()
	if err != nil && before == nil {
		s.process.log.Warn("the leader's checkpoint cannot be read; it is tried again", "pipeline", pipeline, "err", err)
	}
}

// problem returns why the leader's checkpoint of a pipeline cannot be read.
func (s *standby) problem() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for pipeline, err := range s.failed {
		return fmt.Errorf("pipeline %s: %w", pipeline, err)
	}
	return nil
}

// limit is how much all pipelines together may record, in bytes.
func (s *standby) limit() (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.of {
		n += r.share
	}
	return n
}

// recorded returns how many bytes are recorded.
func (s *standby) recorded() (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.of {
		if r.holds != nil {
			n += r.holds.Bytes()
		}
	}
	return n
}
