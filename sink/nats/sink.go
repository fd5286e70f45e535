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
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	gonats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats/header"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats/window"
)

// Sink is a [sink.Sink] on one stream, and its [sink.Log].
type Sink struct {
	cfg      Config
	log      *slog.Logger
	usual    []byte
	window   *window.Window
	encoders sync.Pool
	lookups  chan lookup   // what waits for the last message of its subject; as long as the window
	wake     chan struct{} // asks for the stream to be checked
	running  atomic.Bool
	conn     atomic.Pointer[gonats.Conn]
	clock    atomic.Uint32
	stats    counters
	// publishing is read-locked while a message is sent, answering locked while an answer is dealt with.
	publishing sync.RWMutex
	answering  sync.Mutex

	down     atomic.Pointer[error] // why nothing can be published; nil: something can
	deaf     atomic.Pointer[error] // why nothing can be read back; nil: something can, or nobody asks
	mu       sync.Mutex            // guards what follows, and writing to down
	epoch    int                   // counts the times down was set
	denied   error                 // the last permission the broker denied, at deniedAt
	deniedAt time.Time
	// keeps end what is being put into the bucket where the broker does not permit that.
	keeps    map[*context.CancelCauseFunc]struct{}
	lastWarn time.Time
	limits   jetstream.StreamConsumerLimits // of the stream, when it was last looked at, as what follows
	maxAge   time.Duration
	copies   int
	// requests are what is waited for besides acknowledgements: how to end the waiting, by number.
	requests    map[uint64]context.CancelCauseFunc
	lastRequest uint64

	becameUp chan struct{} // closed when something can be published again
	over     chan struct{} // closed when Run has ended

	// acked is what nobody may take back: the furthest message that was acknowledged, or that Bounds told of. born is
	// when the stream that has it was created. Guarded by answering.
	acked mark
	born  time.Time
	// found, replicas and doubted are only serve's: the stream was found good once, with how many replicas, and since
	// when it seems to have gone back.
	found    bool
	replicas int
	doubted  time.Time
	// patience is for replicas, occupied for consumers that somebody may have left behind.
	patience, occupied time.Duration
}

type counters struct{ duplicates, conflicts, timeouts, disconnects atomic.Uint64 }

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
	inbox := gonats.NewInbox()
	s := &Sink{
		cfg:     cfg,
		log:     log,
		usual:   usualAnswer(cfg.Stream),
		window:  window.New(cfg.Window, inbox),
		lookups: make(chan lookup, cfg.Window),
		wake:    make(chan struct{}, 1),

		requests: map[uint64]context.CancelCauseFunc{},
		becameUp: make(chan struct{}),
		over:     make(chan struct{}),
		patience: doubtFor,
		occupied: occupiedFor,
	}
	s.encoders.New = func() any { return header.NewEncoder(cfg.Stream) }
	s.setDown(sink.ErrNotRunning)
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
	if err := s.unusable(); err != nil {
		done(sink.Receipt{}, fmt.Errorf("publish %s: %w", m.Subject, err))
		return
	}
	i, err := s.window.Acquire(ctx)
	if err != nil {
		done(sink.Receipt{}, fmt.Errorf("publish %s: %w", m.Subject, err))
		return
	}
	s.publish(i, m, done)
}

// publish sends m from slot i. When it returns, somebody else settles m, or it is settled.
func (s *Sink) publish(i int, m *sink.Message, done sink.Done) {
	s.publishing.RLock()
	defer s.publishing.RUnlock()
	if err := s.unusable(); err != nil {
		s.finish(i, m, done, sink.Receipt{}, err)
		return
	}
	gen, reply := s.window.Put(i, m, done, s.clock.Load())
	err := s.send(m, reply)
	answer, failure := s.window.Sent(i)
	switch {
	case answer != nil:
		s.answered(answer)
	case err != nil:
		s.fail(i, gen, err)
	case failure != nil:
		s.fail(i, gen, failure)
	}
}

// send hands m to the connection.
func (s *Sink) send(m *sink.Message, reply string) error {
	w := s.encoders.Get().(*header.Encoder)
	defer s.encoders.Put(w)
	err := s.conn.Load().PublishMsg(w.Encode(m, reply))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, gonats.ErrMaxPayload): // found here, before anything was sent
		return sink.TooLarge(fmt.Errorf("%d bytes of data: %w", len(m.Data), err))
	case errors.Is(err, gonats.ErrBadHeaderMsg), errors.Is(err, gonats.ErrBadSubject):
		return sink.Permanent(fmt.Errorf("%d bytes of data: %w", len(m.Data), err))
	case errors.Is(err, gonats.ErrReconnectBufExceeded):
		return errDisconnected
	default:
		return err
	}
}

var (
	errDisconnected = errors.New("not connected")
	errBusy         = errors.New("messages are still being handed to the last connection")
)

// fail settles the message of the generation in slot i, unless somebody has.
func (s *Sink) fail(i int, gen uint64, err error) {
	if m, done, ok := s.window.Take(i, gen, nil, err); ok {
		s.finish(i, m, done, sink.Receipt{}, err)
	}
}

// failWhere settles, in the order of the slots, every message for which pick returns an error.
func (s *Sink) failWhere(pick func(m *sink.Message, tick uint32) error) (n uint64) {
	type victim struct {
		slot int
		gen  uint64
		err  error
	}
	var victims []victim
	s.window.Each(func(i int, gen uint64, m *sink.Message, tick uint32) {
		if err := pick(m, tick); err != nil {
			victims = append(victims, victim{i, gen, err})
		}
	})
	for _, v := range victims {
		s.fail(v.slot, v.gen, v.err)
	}
	return uint64(len(victims))
}

func (s *Sink) failAll(err error) { s.failWhere(func(*sink.Message, uint32) error { return err }) }

// Ready implements [sink.Sink]: nil while there is a connection, the stream has been checked on it, and what somebody
// asks of the log is answered.
func (s *Sink) Ready() error {
	if err := s.unusable(); err != nil {
		return err
	}
	if err := s.deaf.Load(); err != nil {
		return *err
	}
	return nil
}

// unusable returns why nothing can be published.
func (s *Sink) unusable() error {
	if err := s.down.Load(); err != nil {
		return *err
	}
	return nil
}

// Stats returns the counters.
func (s *Sink) Stats() Stats {
	return Stats{
		InFlight:    s.window.Used(),
		Duplicates:  s.stats.duplicates.Load(),
		Conflicts:   s.stats.conflicts.Load(),
		Timeouts:    s.stats.timeouts.Load(),
		Disconnects: s.stats.disconnects.Load(),
	}
}

// setDown says why nothing can be published from now on.
func (s *Sink) setDown(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	s.down.Store(&err)
}

// reconnecting is called before each connection is made. Nothing may be sent on it before the stream was checked on it:
// nobody begins to publish from here on, and while somebody still does there must be no connection.
func (s *Sink) reconnecting() error {
	s.mu.Lock()
	s.epoch++
	s.down.CompareAndSwap(nil, &errDisconnected)
	s.mu.Unlock()
	if !s.publishing.TryLock() {
		return errBusy
	}
	s.publishing.Unlock()
	return nil
}

// setUp says that the stream was found good. If something has happened since epoch, it is looked at again instead.
func (s *Sink) setUp(epoch int, server string) {
	s.mu.Lock()
	stale := s.epoch != epoch
	news := !stale && s.down.Swap(nil) != nil
	if news {
		close(s.becameUp)
		s.becameUp = make(chan struct{})
	}
	s.mu.Unlock()
	if stale {
		s.look()
	}
	if news {
		s.log.Info("publishing", "stream", s.cfg.Stream, "server", server)
	}
}

// reached says for the log which server the connection is to. One in this process is reached without an address.
func (s *Sink) reached(nc *gonats.Conn) string {
	if s.cfg.Client.InProcess != nil {
		return "in this process"
	}
	return nc.ConnectedUrlRedacted()
}

// suspect asks for another look at the stream, and stops publishing meanwhile.
func (s *Sink) suspect(err error) {
	if s.down.CompareAndSwap(nil, &err) {
		s.look()
	}
}

func (s *Sink) look() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Sink) currentEpoch() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epoch
}

// warn logs that the broker is not usable now, at most every ten seconds.
func (s *Sink) warn(err error) {
	s.mu.Lock()
	quiet := time.Since(s.lastWarn) < 10*time.Second
	if !quiet {
		s.lastWarn = time.Now()
	}
	s.mu.Unlock()
	if !quiet {
		s.log.Warn("waiting for the broker", "stream", s.cfg.Stream, "err", err)
	}
}
