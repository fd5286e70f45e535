// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	gonats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

const (
	maxWait = 10 * time.Second
	// ticks is into how many parts the acknowledgement timeout is divided by the clock.
	ticks = 8
	// lookers is how many last messages are looked up at a time.
	lookers = 4
	// explainEvery is how often a lost connection is asked for the reason.
	explainEvery = time.Second
)

var errClosed = errors.New("the broker closed the connection")

// backoff is how long to wait for the n-th time, from 1: doubling from Config.Wait to maxWait, less up to a half at
// random.
func (s *Sink) backoff(n int) time.Duration {
	d := s.cfg.Wait
	for ; n > 1 && d < maxWait; n-- {
		d *= 2
	}
	d = min(d, maxWait)
	return d - rand.N(d/2)
}

// Run implements [sink.Sink]. A stream that is missing is created; one that exists is never changed, only checked, also
// after each loss of the connection. A broker that is away or refuses the credentials is waited for. When ctx ends,
// what has no answer yet is told ctx's error: drain before. Run is called once.
//
// The error is a [*sink.RewoundError] when the stream is gone or was made anew, ends before the last message that was
// acknowledged or that Bounds told of, or has another one in the place of the last that was acknowledged. A message
// that the stream has removed since is not missed. The stream is looked at on each new connection before anything is
// published on it, when answers are strange, and every [Config].LookEvery: so long may messages be published to a
// stream that was made anew on an open connection. Where a stream has replicas, one that is left behind may answer for
// a while: the log must have gone back for 15 seconds to be believed.
func (s *Sink) Run(ctx context.Context) (err error) {
	if !s.running.CompareAndSwap(false, true) {
		return errors.New("nats: Run was called a second time")
	}
	var work sync.WaitGroup
	inner, cancel := context.WithCancel(ctx)
	defer func() {
		s.setDown(sink.ErrNotRunning)
		cancel()
		work.Wait()
		s.end(ctx, err)
	}()
	work.Go(func() { s.tick(inner) })
	for range lookers {
		work.Go(func() { s.lookAll(inner) })
	}
	for n := 1; ; n++ {
		established, err := s.session(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case final(err):
			return err
		case established:
			n = 1
		}
		s.setDown(err)
		s.warn(err)
		if pause.For(ctx, s.backoff(n)) != nil {
			return nil
		}
	}
}

// final reports whether err must end Run.
func final(err error) bool {
	var unusable *sink.UnusableError
	var rewound *sink.RewoundError
	return errors.As(err, &unusable) || errors.As(err, &rewound)
}

// end settles what is left when nobody else does any more.
func (s *Sink) end(ctx context.Context, err error) {
	if err == nil {
		err = ctx.Err()
	}
	for len(s.lookups) > 0 {
		l := <-s.lookups
		s.finish(l.slot, l.m, l.done, sink.Receipt{}, err)
	}
	s.failAll(err)
	close(s.over)
}

// settleAll fails everything under way on a connection that is closed, and waits for those who settle something else.
func (s *Sink) settleAll(err error) {
	s.publishing.Lock()   // who comes later finds the sink down, or the connection closed
	s.publishing.Unlock() //nolint:staticcheck // only to wait
	s.failAll(err)
	s.answering.Lock()   // later answers find nothing
	s.answering.Unlock() //nolint:staticcheck // only to wait
}

// session lives as long as one connection, which finds its broker again by itself. It returns when ctx ended, the
// stream must not be used, or the broker closed the connection for good.
func (s *Sink) session(ctx context.Context) (established bool, err error) {
	closed := make(chan struct{})
	nc, err := s.connect(ctx, func() { close(closed) })
	if err != nil {
		return false, err
	}
	sub, err := nc.Subscribe(s.window.Answers(), s.answered)
	if err != nil {
		nc.Close()
		<-closed
		return false, fmt.Errorf("subscribe to answers: %w", err)
	}
	defer func() {
		s.setDown(s.orEnded(ctx, errDisconnected))
		nc.Close()
		<-closed
		s.settleAll(s.orEnded(ctx, errDisconnected))
	}()
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return false, fmt.Errorf("subscribe to answers: %w", err)
	}
	s.conn.Store(nc)
	return true, s.serve(ctx, nc, closed)
}

// serve checks the stream whenever there is a reason to.
func (s *Sink) serve(ctx context.Context, nc *gonats.Conn, closed <-chan struct{}) error {
	js, err := s.jetstream(nc)
	if err != nil {
		return err
	}
	for failures, routine := 0, false; ; {
		epoch := s.currentEpoch()
		err := errDisconnected
		if nc.IsConnected() {
			err = s.ensure(ctx, js)
		}
		if !errors.Is(err, errLeftBehind) {
			s.doubted = time.Time{}
		}
		var next time.Duration
		switch {
		case ctx.Err() != nil:
			return nil
		case final(err):
			return err
		case err == nil:
			failures = 0
			next = s.cfg.LookEvery
			s.setUp(epoch, s.reached(nc))
		case nc.IsConnected():
			failures++
			next = s.backoff(failures)
			s.unsure(err, routine)
		default:
			next = explainEvery
			s.explain(nc.LastError())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-closed:
			if err := nc.LastError(); err != nil {
				return natsclient.Explain(err)
			}
			return errClosed
		case <-s.wake:
			routine = false
		case <-time.After(next):
			routine = s.unusable() == nil
		}
	}
}

// unsure deals with a look at the stream that failed. One that nothing gave a reason for stops nobody: a cluster may
// acknowledge messages while it cannot answer questions.
func (s *Sink) unsure(err error, routine bool) {
	if !routine || errors.Is(err, errLeftBehind) {
		s.setDown(err)
	}
	s.warn(err)
}

func (s *Sink) jetstream(nc *gonats.Conn) (js jetstream.JetStream, err error) {
	if s.cfg.Domain == "" {
		js, err = jetstream.New(nc)
	} else {
		js, err = jetstream.NewWithDomain(nc, s.cfg.Domain)
	}
	if err != nil {
		return nil, fmt.Errorf("jetstream: %w", err)
	}
	return js, nil
}

// explain says why the connection cannot be made again, which the library does not always tell.
func (s *Sink) explain(cause error) {
	if cause == nil {
		return
	}
	err := fmt.Errorf("%w: %w", errDisconnected, natsclient.Explain(cause))
	s.setDown(err)
	s.warn(err)
}

// disconnected fails what is under way: its answers will not come.
func (s *Sink) disconnected(ctx context.Context, cause error) {
	err := errDisconnected
	if cause != nil {
		err = fmt.Errorf("%w: %w", errDisconnected, natsclient.Explain(cause))
	}
	s.stats.disconnects.Add(1)
	s.setDown(err)
	s.hangUp()
	s.failAll(s.orEnded(ctx, err))
	s.look()
}

// orEnded returns err, or ctx's error if that is the reason.
func (s *Sink) orEnded(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	return err
}

// tick fails what has waited too long.
func (s *Sink) tick(ctx context.Context) {
	t := time.NewTicker(max(s.cfg.AckTimeout/ticks, time.Millisecond))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now, late := s.clock.Add(1), s.late()
		n := s.failWhere(func(_ *sink.Message, then uint32) error {
			if now-then <= ticks {
				return nil
			}
			s.stats.timeouts.Add(1) // before anybody hears of it
			return late
		})
		if n > 0 {
			s.look() // a stream that was told not to acknowledge is silent too
		}
	}
}

// late is the error of a message that was not acknowledged in time.
func (s *Sink) late() error {
	if s.cfg.Broken != nil {
		if err := s.cfg.Broken(); err != nil {
			return fmt.Errorf("no acknowledgement within %v: %w", s.cfg.AckTimeout, err)
		}
	}
	return fmt.Errorf("no acknowledgement within %v", s.cfg.AckTimeout)
}
