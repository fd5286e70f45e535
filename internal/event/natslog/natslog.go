// SPDX-License-Identifier: Apache-2.0

// Package natslog reads a JetStream stream as a [event.Log], across everything that interrupts it.
package natslog

import (
	"context"
	"errors"
	"fmt"
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
)

// Log is a [event.Log].
type Log struct {
	nc  *gonats.Conn
	js  jetstream.JetStream
	cfg Config
	// direct says that the stream answers direct gets.
	direct bool
}

// Connect returns the log of c. With Wait its connection may be one that is not there yet.
func Connect(c Config) (*Log, error) {
	if c.Notice == nil {
		c.Notice = func(string) {}
	}
	if c.Pause == 0 {
		c.Pause = defaultPause
	}
	jitter := c.Pause * 2 / 5
	nc, err := natsclient.Dial(natsclient.Config{
		Name: "kube-eventbridge tail", Servers: c.Servers, Auth: c.Auth,
		TLS: c.TLS,
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
	return &Log{nc: nc, js: js, cfg: c}, nil
}

// Close ends the connection.
func (l *Log) Close() { l.nc.Close() }

// Read implements [event.Log]. It closes the connection when ctx ends. A connection that is closed for good
// (credentials refused) is an error, as is, without Follow, a stream that does not exist, and whatever a broker that is there
// answers before reading has begun. With Follow it gives notice when it begins to read.
func (l *Log) Read(ctx context.Context, r event.Reading) error {
	// A request under way does not end with ctx everywhere in the client; it does with the connection.
	defer context.AfterFunc(ctx, l.nc.Close)()
	return (&reader{Log: l, Reading: r}).run(ctx)
}

func (l *Log) servers() string {
	if u := l.nc.ConnectedUrl(); u != "" {
		return natsclient.Redact(u) // the client's own redaction shows tokens
	}
	return natsclient.Redact(l.nc.Servers()...)
}
