// SPDX-License-Identifier: Apache-2.0

package natslog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	gonats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats/header"
)

// errMissed says that the stream has to be looked at, and read on with another consumer: messages did not arrive.
var errMissed = errors.New("messages did not arrive")

func (r *reader) consumer() jetstream.ConsumerConfig {
	if r.next != 0 {
		return r.consumerFrom(r.next, r.cfg.Subjects)
	}
	c := r.consumerFrom(0, r.cfg.Subjects)
	c.DeliverPolicy, c.OptStartTime = jetstream.DeliverByStartTimePolicy, &r.Start.Time
	return c
}

// consumerFrom is a consumer for one reading. The client's ordered consumer would recreate itself, also on
// another stream of the same name, where it waits for sequences that are far away.
func (r *reader) consumerFrom(sequence uint64, subjects []string) jetstream.ConsumerConfig {
	c := jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: sequence, AckPolicy: jetstream.AckNonePolicy,
		InactiveThreshold: 30 * time.Second, Replicas: 1, MemoryStorage: true,
	}
	filter(&c, subjects)
	return c
}

// filter restricts a consumer. A user may be allowed consumers of one subject only: then it is named where the server
// looks for it.
func filter(c *jetstream.ConsumerConfig, subjects []string) {
	if len(subjects) == 1 {
		c.FilterSubject = subjects[0]
	} else {
		c.FilterSubjects = subjects
	}
}

// stretch is a part of the stream that one consumer reads.
type stretch struct {
	consumer jetstream.ConsumerConfig
	// made is called when the consumer was made and nothing was read yet, with the last sequence that the stream has
	// then; nil: no caller wants to know.
	made func(ctx context.Context, last uint64) error
	// all is called when all that the stream had was read; nil: no caller wants to know.
	all func() error
	do  func(event.Message) error
	// surely says that all is called only when the stream's leader has nothing behind after either. The consumer may be at
	// a server that does not have yet what the leader has.
	surely bool
	after  uint64
}

const (
	// idle is how long no message comes until the server is asked whether there is one. What a consumer counts as pending
	// may be removed, and then no message says that it is the last one.
	idle = time.Second
	// idleAtMost is how often in a row the server may say that there is one and send none: after a purge it may do so
	// until the next message is stored.
	idleAtMost = 3
)

// read hands over messages until a function of s fails, the connection is interrupted (context.Canceled), or messages
// are missing.
func (r *reader) read(ctx context.Context, s *stretch) error {
	ctx, cancel := r.whileConnected(ctx)
	defer cancel()
	c, err := r.make(ctx, s)
	if err != nil {
		return err
	}
	if c.CachedInfo().NumPending == 0 {
		if err := r.finish(ctx, s); err != nil {
			return err
		}
	}
	// Few at a time: one message can have megabytes.
	messages, err := c.Messages(jetstream.PullMaxMessages(64), jetstream.PullExpiry(10*time.Second),
		jetstream.PullHeartbeat(2*time.Second))
	if err != nil {
		return err
	}
	defer messages.Stop()
	for n := uint64(1); ; n++ {
		m, err := r.await(ctx, s, c, messages, n-1)
		if errors.Is(err, jetstream.ErrConsumerDeleted) || errors.Is(err, jetstream.ErrConsumerNotFound) ||
			errors.Is(err, jetstream.ErrNoHeartbeat) {
			return fmt.Errorf("%w: %w", errMissed, err)
		}
		if err != nil {
			return err
		}
		meta, err := m.Metadata()
		switch {
		case err != nil:
			return err
		case meta.Sequence.Consumer != n:
			return errMissed
		}
		if err := s.do(message(m.Subject(), meta.Sequence.Stream, meta.Timestamp, m.Headers(), m.Data())); err != nil {
			return err
		}
		s.after = max(s.after, meta.Sequence.Stream)
		if meta.NumPending == 0 {
			if err := r.finish(ctx, s); err != nil {
				return err
			}
		}
	}
}

// make makes the consumer of a stretch.
func (r *reader) make(ctx context.Context, s *stretch) (jetstream.Consumer, error) {
	asking, stop := context.WithTimeout(ctx, askFor)
	defer stop()
	c, err := r.js.CreateConsumer(asking, r.cfg.Stream, s.consumer)
	if err != nil {
		return nil, err
	}
	last, err := r.still(asking)
	if err != nil {
		return nil, err
	}
	r.reads()
	if s.made != nil {
		err = s.made(ctx, last)
	}
	return c, err
}

// finish tells once that all was read, if that is so.
func (r *reader) finish(ctx context.Context, s *stretch) error {
	if s.all == nil {
		return nil
	}
	if s.surely {
		last, err := r.lastOf(ctx, filters(&s.consumer))
		if err != nil || last > s.after {
			return err
		}
	}
	all := s.all
	s.all = nil
	return all()
}

// await returns the next message, of a consumer that has given n.
func (r *reader) await(
	ctx context.Context, s *stretch, c jetstream.Consumer, messages jetstream.MessagesContext, n uint64,
) (jetstream.Msg, error) {
	for times := 1; s.all != nil; times++ {
		waiting, stop := context.WithTimeout(ctx, idle)
		m, err := messages.Next(jetstream.NextContext(waiting))
		stop()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return m, err
		}
		asking, stop := context.WithTimeout(ctx, askFor)
		info, err := c.Info(asking)
		stop()
		if err != nil {
			return nil, err
		}
		switch {
		case info.NumPending > 0 && times == idleAtMost:
			return nil, errMissed
		case info.NumPending == 0 && info.Delivered.Consumer == n:
			if err := r.finish(ctx, s); err != nil {
				return nil, err
			}
		}
	}
	return messages.Next(jetstream.NextContext(ctx))
}

// still returns the last sequence of the stream. It fails if that is not the one that was opened: a consumer that was
// made on another one would wait there for a sequence that is far away.
func (r *reader) still(ctx context.Context) (last uint64, err error) {
	stream, err := r.js.Stream(ctx, r.cfg.Stream)
	if err != nil {
		return 0, err
	}
	info := stream.CachedInfo()
	if !info.Created.Equal(r.created) {
		return 0, errMissed
	}
	return info.State.LastSeq, nil
}

func message(subject string, sequence uint64, stored time.Time, h gonats.Header, data []byte) event.Message {
	m := event.Message{Stored: header.Decode(h, data), Subject: subject, Position: sequence, Lanes: 1}
	m.Sequence, m.Time = sequence, stored
	return m
}

// whileConnected returns a context that ends with ctx and when the connection is interrupted: what comes after must
// look at the stream first.
func (r *reader) whileConnected(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	status := r.nc.StatusChanged(gonats.DISCONNECTED, gonats.RECONNECTING, gonats.CLOSED)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-status:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel()
		watch.Wait()
		r.nc.RemoveStatusListener(status)
	}
}
