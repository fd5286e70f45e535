// SPDX-License-Identifier: Apache-2.0

// Package nats publishes to a NATS JetStream stream.
//
// A message is one JetStream publish with its id as Nats-Msg-Id, so that the stream itself drops a repetition within
// its duplicates window, and bound to the configured stream. The stream drops it also if another message of its subject
// was stored since, so that the sink then looks up the subject's last message. Longer absences are bridged by the check
// of the last message of a subject: see [sink.Message]. In binary mode attributes are headers ce-…, percent-encoded as
// CloudEvents' NATS binding has it; in structured mode there is only content-type.
//
// A message counts as accepted when the stream said so. What that is worth on a crash of the broker's machine is
// decided there: by default a server of one replica flushes its files to the disk every two minutes.
//
// Order is kept by callers that have one unacknowledged message per key: after a failure the connection's buffer is
// never sent again, and an answer that comes late counts for nothing.
package nats

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	gonats "github.com/nats-io/nats.go"
	"golang.org/x/time/rate"

	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// Sink is a [sink.Sink] on one stream, and its [sink.Log].
type Sink struct {
	cfg       Config
	log       *slog.Logger
	often     rate.Sometimes // for saying what may be true of every attempt
	running   atomic.Bool
	state     *availability
	broker    *broker
	stream    *stream
	publisher *publisher
	deaf      atomic.Pointer[error] // why nothing can be read back; nil: something can, or no caller asks
	// disconnects counts lost connections.
	disconnects atomic.Uint64
	// occupied is for consumers that somebody may have left behind.
	occupied time.Duration
}

// Stats counts what happened since the sink was made.
type Stats struct {
	// InFlight is the number of messages without an answer now.
	InFlight int
	// Duplicates counts messages that the stream had already, as the last of their subject unless that is shared.
	// Conflicts counts those whose subject ended with another one.
	Duplicates, Conflicts uint64
	// Timeouts counts messages without an answer in time, Disconnects lost connections.
	Timeouts, Disconnects uint64
}

// New returns a sink that does nothing until Run. The error names everything that is wrong with cfg.
// A nil logger means none.
func New(cfg Config, log *slog.Logger) (*Sink, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("nats: %w", err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Sink{
		cfg:      cfg,
		log:      log,
		often:    rate.Sometimes{Interval: 10 * time.Second},
		state:    newAvailability(),
		broker:   newBroker(&cfg),
		occupied: occupiedFor,
	}
	s.stream = &stream{cfg: &s.cfg, log: log, broker: s.broker, patience: doubtFor}
	s.publisher = newPublisher(&s.cfg, s.state, s.broker, &s.stream.acked)
	return s, nil
}

// Publish implements [sink.Publisher]. Without a connection, or while the stream is being checked, it fails at once.
// Messages larger than the server or the stream allows, and subjects that are none, not permitted or not the stream's,
// are permanent failures.
func (s *Sink) Publish(ctx context.Context, m *sink.Message, done sink.Done) {
	if !natsclient.ValidSubject(m.Subject) {
		done(sink.Receipt{}, sink.Permanent(fmt.Errorf("publish %.200q: not a subject to publish to", m.Subject)))
		return
	}
	if err := s.state.err(); err != nil {
		done(sink.Receipt{}, fmt.Errorf("publish %s: %w", m.Subject, err))
		return
	}
	s.publisher.publish(ctx, m, done)
}

// Ready implements [sink.Sink]: nil while there is a connection, the stream has been checked on it, and what somebody
// asks of the log is answered.
func (s *Sink) Ready() error {
	if err := s.state.err(); err != nil {
		return err
	}
	if err := s.deaf.Load(); err != nil {
		return *err
	}
	return nil
}

// Stats returns the counters.
func (s *Sink) Stats() Stats {
	return Stats{
		InFlight:    s.publisher.window.Used(),
		Duplicates:  s.publisher.duplicates.Load(),
		Conflicts:   s.publisher.conflicts.Load(),
		Timeouts:    s.publisher.timeouts.Load(),
		Disconnects: s.disconnects.Load(),
	}
}

// reconnecting is called before each connection is made. Nothing may be sent on it before the stream was checked on it:
// no caller begins to publish from here on, and while one still does there must be no connection.
func (s *Sink) reconnecting() error {
	s.state.setLost()
	if !s.publisher.publishing.TryLock() {
		return errBusy
	}
	s.publisher.publishing.Unlock()
	return nil
}

// reached says for the log which server the connection is to. One in this process is reached without an address.
func (s *Sink) reached(nc *gonats.Conn) string {
	if s.cfg.Client.InProcess != nil {
		return "in this process"
	}
	return natsclient.Redact(nc.ConnectedUrl())
}

// warn logs that the broker is not usable now, at most every ten seconds.
func (s *Sink) warn(err error) {
	s.often.Do(func() { s.log.Warn("waiting for the broker", "stream", s.cfg.Stream, "err", err) })
}
