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
		return r.consumerFrom(r.next)
	}
	c := r.consumerFrom(0)
	c.DeliverPolicy, c.OptStartTime = jetstream.DeliverByStartTimePolicy, &r.Start.Time
	return c
}

// consumerFrom is a consumer for one reading. The client's ordered consumer would recreate itself, also on
// another stream of the same name, where it waits for sequences that are far away.
func (r *reader) consumerFrom(sequence uint64) jetstream.ConsumerConfig {
	c := jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: sequence, AckPolicy: jetstream.AckNonePolicy,
		InactiveThreshold: 30 * time.Second, Replicas: 1, MemoryStorage: true,
	}
	// A user may be allowed consumers of one subject only: then it is named where the server looks for it.
	if len(r.cfg.Subjects) == 1 {
		c.FilterSubject = r.cfg.Subjects[0]
	} else {
		c.FilterSubjects = r.cfg.Subjects
	}
	return c
}

// read hands over messages until do fails, the connection is interrupted (context.Canceled), messages are missing, or,
// where end is set, all that the stream has were read (errDone).
func (r *reader) read(ctx context.Context, cfg jetstream.ConsumerConfig, end bool, do func(event.Message) error) error {
	ctx, cancel := r.whileConnected(ctx)
	defer cancel()
	asking, stop := context.WithTimeout(ctx, askFor)
	defer stop()
	c, err := r.js.CreateConsumer(asking, r.cfg.Stream, cfg)
	if err != nil {
		return err
	}
	if err := r.still(asking); err != nil {
		return err
	}
	r.reads()
	if end && c.CachedInfo().NumPending == 0 {
		return errDone
	}
	// Few at a time: one message can have megabytes.
	messages, err := c.Messages(jetstream.PullMaxMessages(64), jetstream.PullExpiry(10*time.Second),
		jetstream.PullHeartbeat(2*time.Second))
	if err != nil {
		return err
	}
	defer messages.Stop()
	for n := uint64(1); ; n++ {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if errors.Is(err, jetstream.ErrConsumerDeleted) || errors.Is(err, jetstream.ErrNoHeartbeat) {
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
		if err := do(message(m.Subject(), meta.Sequence.Stream, meta.Timestamp, m.Headers(), m.Data())); err != nil {
			return err
		}
		if end && meta.NumPending == 0 {
			return errDone
		}
	}
}

// still fails if the stream is not the one that was opened: a consumer that was made on another one would wait there
// for a sequence that is far away.
func (r *reader) still(ctx context.Context) error {
	stream, err := r.js.Stream(ctx, r.cfg.Stream)
	if err == nil && !stream.CachedInfo().Created.Equal(r.created) {
		return errMissed
	}
	return err
}

func message(subject string, sequence uint64, stored time.Time, h gonats.Header, data []byte) event.Message {
	m := event.Message{Stored: header.Decode(h, data), Subject: subject}
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
