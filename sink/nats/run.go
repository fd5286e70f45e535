// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	gonats "github.com/nats-io/nats.go"

	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

const (
	// ticks is into how many parts the acknowledgement timeout is divided by the clock.
	ticks = 8
	// lookers is how many last messages are looked up at a time.
	lookers = 4
	// explainEvery is how often a lost connection is asked for the reason.
	explainEvery = time.Second
)

var (
	errClosed       = errors.New("the broker closed the connection")
	errDisconnected = errors.New("not connected")
	errBusy         = errors.New("messages are still being handed to the last connection")
)

// Run implements [sink.Sink]. A stream that is missing is created; one that exists is never changed, only checked, also
// after each loss of the connection. A broker that is away or refuses the credentials is waited for. When ctx ends,
// what has no answer yet is told ctx's error: drain before. Run is called once.
//
// The error is a [*sink.RewoundError] when the stream is gone or was recreated, ends before the last message that was
// acknowledged or that Bounds told of, or has another one in the place of the last that was acknowledged. A message
// that the stream has removed since is not missed. The stream is looked at on each new connection before anything is
// published on it, when answers are strange, and every [Config].LookEvery: so long may messages be published to a
// stream that was recreated on an open connection. Where a stream has replicas, one that is left behind may answer for
// a while: the log must have gone back for 15 seconds to be believed.
func (s *Sink) Run(ctx context.Context) (err error) {
	if !s.running.CompareAndSwap(false, true) {
		return errors.New("nats: Run was called a second time")
	}
	var work sync.WaitGroup
	inner, cancel := context.WithCancel(ctx)
	defer func() {
		s.state.setDown(sink.ErrNotRunning)
		cancel()
		work.Wait()
		s.publisher.end(cmp.Or(err, ctx.Err()))
		close(s.state.over)
	}()
	work.Go(func() { s.publisher.tick(inner) })
	for range lookers {
		work.Go(func() { s.publisher.lookAll(inner) })
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
		s.state.setDown(err)
		s.warn(err)
		if pause.For(ctx, s.cfg.backoff(n)) != nil {
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

// session lives as long as one connection, which finds its broker again by itself. It returns when ctx ended, the
// stream must not be used, or the broker closed the connection for good.
func (s *Sink) session(ctx context.Context) (established bool, err error) {
	closed := make(chan struct{})
	nc, err := s.connect(ctx, func() { close(closed) })
	if err != nil {
		return false, err
	}
	sub, err := nc.Subscribe(s.publisher.window.Answers(), s.publisher.answered)
	if err != nil {
		nc.Close()
		<-closed
		return false, fmt.Errorf("subscribe to answers: %w", err)
	}
	defer func() {
		s.state.setDown(orEnded(ctx, errDisconnected))
		nc.Close()
		<-closed
		s.publisher.settleAll(orEnded(ctx, errDisconnected))
	}()
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return false, fmt.Errorf("subscribe to answers: %w", err)
	}
	s.broker.conn.Store(nc)
	return true, s.serve(ctx, nc, closed)
}

// serve checks the stream whenever there is a reason to.
func (s *Sink) serve(ctx context.Context, nc *gonats.Conn, closed <-chan struct{}) error {
	js, err := s.broker.jetstream(nc)
	if err != nil {
		return err
	}
	for failures, routine := 0, false; ; {
		epoch := s.state.currentEpoch()
		err := errDisconnected
		if nc.IsConnected() {
			err = s.stream.ensure(ctx, js)
		}
		if !errors.Is(err, errLeftBehind) {
			s.stream.doubted = time.Time{}
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
			if s.state.setUp(epoch) {
				s.log.Info("publishing", "stream", s.cfg.Stream, "server", s.reached(nc))
			}
		case nc.IsConnected():
			failures++
			next = s.cfg.backoff(failures)
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
		case <-s.state.wake:
			routine = false
		case <-time.After(next):
			routine = s.state.err() == nil
		}
	}
}

// unsure deals with a look at the stream that failed. One that nothing gave a reason for stops no caller: a cluster may
// acknowledge messages while it cannot answer questions.
func (s *Sink) unsure(err error, routine bool) {
	if !routine || errors.Is(err, errLeftBehind) {
		s.state.setDown(err)
	}
	s.warn(err)
}

// explain says why the connection cannot be made again, which the library does not always tell.
func (s *Sink) explain(cause error) {
	if cause == nil {
		return
	}
	err := fmt.Errorf("%w: %w", errDisconnected, natsclient.Explain(cause))
	s.state.setDown(err)
	s.warn(err)
}

// disconnected fails what is under way: its answers will not come.
func (s *Sink) disconnected(ctx context.Context, cause error) {
	err := errDisconnected
	if cause != nil {
		err = fmt.Errorf("%w: %w", errDisconnected, natsclient.Explain(cause))
	}
	s.disconnects.Add(1)
	s.state.setDown(err)
	s.broker.hangUp()
	s.publisher.failAll(orEnded(ctx, err))
	s.state.look()
}

// orEnded returns err, or ctx's error if that is the reason.
func orEnded(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	return err
}
