// SPDX-License-Identifier: Apache-2.0

// Package natslog reads a JetStream stream as a [event.Log], across everything that interrupts it.
package natslog

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	gonats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
)

// Config says which stream is read, and how its broker is reached.
type Config struct {
	// Servers, Auth and TLS are as in [natsclient.Config].
	Servers []string
	Auth    natsclient.Auth
	TLS     natsclient.TLS

	// Stream is the JetStream stream.
	Stream string
	// Subjects are NATS subjects, with wildcards, to which the server restricts what is sent; empty: all.
	Subjects []string
	// SubjectPerObject says that each object has a subject of its own. Without it [event.Start].Newest begins with the
	// oldest message: the newest one of a subject says nothing about the subject's other objects.
	SubjectPerObject bool
	// Whole are subjects whose messages [event.Start].Newest reads all, before the newest ones of Subjects, which must
	// contain them. It is for markers: those of a resource share few subjects, and each of them matters. They may not
	// overlap. All messages of them are read, whichever are the newest, so the newest one of each is given twice.
	Whole []string
	// Durable is the name of the durable consumer that Acknowledge moves.
	Durable string
	// Name is what the server calls this client (default "kube-eventbridge tail").
	Name string
	// Wait goes on connecting until there is a server; without it Connect fails when there is none.
	Wait bool
	// Pause is how long a broker that failed is left alone (default 250 ms).
	Pause time.Duration
	// Notice is told, in a line for a person, what the server refuses and what interrupts the reading, from any
	// goroutine; nil: no caller is.
	Notice func(line string)
}

const (
	// askFor bounds every question to the broker.
	askFor       = 5 * time.Second
	defaultPause = 250 * time.Millisecond
	defaultName  = "kube-eventbridge tail"
	// getsAtOnce is how many messages are asked for at a time.
	getsAtOnce = 32
)

// Log is a [event.Log].
type Log struct {
	nc  *gonats.Conn
	js  jetstream.JetStream
	cfg Config
	// direct says that the stream answers direct gets.
	direct atomic.Bool
	gets   chan struct{}
	// acknowledging is taken by what moves the durable consumer.
	acknowledging chan struct{}
	// farBehind is how many messages are too many to acknowledge: then the consumer is made again where it shall be.
	farBehind uint64
}

var (
	_ event.Log      = (*Log)(nil)
	_ event.Bodies   = (*Log)(nil)
	_ event.Progress = (*Log)(nil)
)

// Connect returns the log of c. With Wait its connection may be one that is not there yet.
func Connect(c Config) (*Log, error) {
	if c.Notice == nil {
		c.Notice = func(string) {}
	}
	if c.Pause == 0 {
		c.Pause = defaultPause
	}
	if c.Name == "" {
		c.Name = defaultName
	}
	jitter := c.Pause * 2 / 5
	nc, err := natsclient.Dial(natsclient.Config{
		Name: c.Name, Servers: c.Servers, Auth: c.Auth, TLS: c.TLS,
	},
		gonats.MaxReconnects(-1), gonats.ReconnectWait(c.Pause), gonats.ReconnectJitter(jitter, jitter),
		gonats.ReconnectBufSize(-1),
		gonats.RetryOnFailedConnect(c.Wait), gonats.Timeout(askFor),
		gonats.PingInterval(20*time.Second),
		gonats.ErrorHandler(func(_ *gonats.Conn, _ *gonats.Subscription, err error) {
			// Everything else is seen, and told, where it happens.
			if errors.Is(err, gonats.ErrPermissionViolation) || errors.Is(err, gonats.ErrAuthorization) {
				c.Notice(fmt.Sprintf("the server refuses: %v", err))
			}
		}))
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	return &Log{
		nc: nc, js: js, cfg: c, gets: make(chan struct{}, getsAtOnce), acknowledging: make(chan struct{}, 1),
		farBehind: farBehind,
	}, nil
}

// Close ends the connection.
func (l *Log) Close() { l.nc.Close() }

// Read implements [event.Log]. It closes the connection when ctx ends. A connection that is closed for good
// (credentials refused) is an error, as is, without Follow, a stream that does not exist, and whatever a broker that is
// there answers before reading has begun. With Follow it gives notice when it begins to read.
//
// A reading that is interrupted goes on behind the last message that Each took. With Start.Newest, until CaughtUp, it
// goes on with the newest message of each subject again: the one that was the newest of a subject may have been removed
// meanwhile, and then an older one is, which lies before what was given. So messages are given twice, and none is
// missed. Messages of Config.Whole are given once, up to what the stream has when the newest ones are asked for.
func (l *Log) Read(ctx context.Context, r event.Reading) error {
	// A request under way does not end with ctx everywhere in the client; it does with the connection.
	defer context.AfterFunc(ctx, l.nc.Close)()
	if r.Start.Newest && !l.cfg.SubjectPerObject {
		r.Start = event.Start{Beginning: true}
	}
	return (&reader{Log: l, Reading: r}).run(ctx)
}

func (l *Log) servers() string {
	if u := l.nc.ConnectedUrl(); u != "" {
		return natsclient.Redact(u) // the client's own redaction shows tokens
	}
	return natsclient.Redact(l.nc.Servers()...)
}
