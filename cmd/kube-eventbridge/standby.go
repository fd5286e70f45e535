// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// standby records, for each pipeline, what the process that leads has not committed yet.
type standby struct {
	process *process
	uid     string
	// cfg is what of is made of.
	cfg *config.Config
	of  []standbyPipeline

	mu sync.Mutex
	// holds are those of each pipeline, from begin to end.
	holds []*source.Holds
	// failed is why the leader's checkpoint of a pipeline could not be read the last time.
	failed map[string]error

	peeking, recording     sync.WaitGroup
	stopPeeking, stopHolds context.CancelFunc
}

type standbyPipeline struct {
	name  string
	specs []bridge.StreamSpec
	peek  checkpoint.Peeker
	share int64
}

// newStandby returns one of a configuration that does nothing until begin, and has to be closed.
func (p *process) newStandby(uid string, cfg *config.Config) (*standby, error) {
	s := &standby{process: p, uid: uid, cfg: cfg, failed: map[string]error{}, stopPeeking: func() {}, stopHolds: func() {}}
	for i := range cfg.Pipelines {
		c := &cfg.Pipelines[i]
		id := p.identity(c, uid)
		specs, _, err := p.streams(c, id)
		if err == nil {
			peek := &renewedPeeker{open: func() (checkpoint.Peeker, error) { return peeker(c, id) }}
			if err = peek.renew(); err == nil {
				s.of = append(s.of, standbyPipeline{c.Name, specs, peek, int64(cfg.StandbyShare(c))})
			}
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("pipeline %s: %w", c.Name, err), s.close())
		}
	}
	return s, nil
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

// follow records anew, by a configuration, until end. Where it cannot the error says why, and all is as before.
func (s *standby) follow(ctx context.Context, cfg *config.Config) error {
	if reflect.DeepEqual(cfg.Pipelines, s.cfg.Pipelines) && cfg.Buffer == s.cfg.Buffer {
		s.cfg = cfg
		if !s.records() { // else what is recorded may be all that is left of what the leader has not committed
			s.begin(ctx)
		}
		return nil
	}
	next, err := s.process.newStandby(s.uid, cfg)
	if err != nil {
		return err
	}
	if err := s.close(); err != nil {
		s.process.log.Warn("what has read a checkpoint cannot be closed", "err", err)
	}
	s.mu.Lock()
	s.cfg, s.of = cfg, next.of
	s.mu.Unlock()
	s.begin(ctx)
	return nil
}

func (s *standby) records() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holds != nil
}

// begin records until end.
func (s *standby) begin(ctx context.Context) {
	peeking, stopPeeking := context.WithCancel(ctx)
	recording, stopHolds := context.WithCancel(context.WithoutCancel(ctx))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopPeeking, s.stopHolds, s.holds = stopPeeking, stopHolds, nil
	for _, of := range s.of {
		h := source.NewHolds(s.process.client, s.process.watches, of.share)
		s.holds = append(s.holds, h)
		s.recording.Go(func() { _ = h.Run(recording) }) // it ends with its context, or when there is nothing left
		s.peeking.Go(func() {
			bridge.StandBy(peeking, of.specs, of.peek, h, func(err error) { s.told(of.name, err) })
		})
	}
}

// handOver returns what was recorded for each pipeline. It goes on being recorded until whoever reads it has caught up, or end.
func (s *standby) handOver() []*source.Holds {
	s.stopPeeking()
	s.peeking.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holds
}

// end records nothing any more.
func (s *standby) end() {
	s.stopPeeking()
	s.stopHolds()
	s.peeking.Wait()
	s.recording.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds = nil
	clear(s.failed)
}

// close ends all.
func (s *standby) close() error {
	s.end()
	var err error
	for _, of := range s.of {
		err = errors.Join(err, of.peek.Close())
	}
	return err
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
	for _, of := range s.of {
		n += of.share
	}
	return n
}

// recorded returns how many bytes are recorded.
func (s *standby) recorded() (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.holds {
		n += h.Bytes()
	}
	return n
}
