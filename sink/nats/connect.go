// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	gonats "github.com/nats-io/nats.go"
)

const (
	connectTimeout = 5 * time.Second
	// writeBuffer is large because a write costs more than its bytes.
	writeBuffer = 256 << 10
	// firstWait is how long a lost connection is left alone: cuts are mostly short.
	firstWait = 20 * time.Millisecond
)

// connect makes a connection that reconnects for ever. closed is called once it never will again.
func (s *Sink) connect(ctx context.Context, closed func()) (*gonats.Conn, error) {
	d := &dialer{ctx: ctx, before: s.reconnecting}
	cfg := s.cfg
	if cfg.InProcess != nil {
		cfg.InProcess = &guarded{provider: cfg.InProcess, before: s.reconnecting}
	}
	opts := []gonats.Option{
		gonats.SetCustomDialer(d),
		gonats.Timeout(connectTimeout),
		gonats.MaxReconnects(-1),
		gonats.IgnoreAuthErrorAbort(),
		gonats.CustomReconnectDelay(s.reconnectDelay),
		// What the connection held back while there was none would overtake what failed.
		gonats.ReconnectBufSize(-1),
		gonats.WriteBufferSize(writeBuffer),
		gonats.FlusherTimeout(s.cfg.AckTimeout),
		gonats.ReconnectOnFlusherError(),
		gonats.SkipSubjectValidation(),
		gonats.PingInterval(10 * time.Second),
		gonats.DisconnectErrHandler(func(_ *gonats.Conn, err error) { s.disconnected(ctx, err) }),
		gonats.ReconnectErrHandler(func(_ *gonats.Conn, err error) { s.explain(err) }),
		gonats.ReconnectHandler(func(*gonats.Conn) { s.look() }),
		gonats.ErrorHandler(func(nc *gonats.Conn, _ *gonats.Subscription, err error) { s.complained(nc, err) }),
		gonats.ClosedHandler(func(*gonats.Conn) { closed() }),
	}
	nc, err := Dial(cfg, opts...)
	if err == nil {
		return nc, nil
	}
	if cause := d.err(); cause != nil && errors.Is(err, gonats.ErrNoServers) {
		err = cause
	}
	return nil, fmt.Errorf("connect: %w", err)
}

func (s *Sink) reconnectDelay(attempt int) time.Duration {
	if attempt <= 1 {
		return min(firstWait, s.cfg.Wait)
	}
	return s.backoff(attempt - 1)
}

// dialer makes connections that end with ctx, so that no server that has stopped answering delays the end. The library's
// interface has no context: hence it is kept here.
type dialer struct {
	ctx    context.Context
	before func() error
	mu     sync.Mutex
	last   error
}

// Dial implements [gonats.CustomDialer].
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	if err := d.before(); err != nil {
		return nil, err
	}
	c, err := (&net.Dialer{Timeout: connectTimeout}).DialContext(d.ctx, network, address)
	d.mu.Lock()
	d.last = err
	d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, forget: context.AfterFunc(d.ctx, func() { _ = c.Close() })}, nil
}

func (d *dialer) err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}

// guarded is a provider that asks before each connection.
type guarded struct {
	provider gonats.InProcessConnProvider
	before   func() error
}

// InProcessConn implements [gonats.InProcessConnProvider].
func (g *guarded) InProcessConn() (net.Conn, error) {
	if err := g.before(); err != nil {
		return nil, err
	}
	return g.provider.InProcessConn()
}

type conn struct {
	net.Conn
	forget func() bool
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.forget()
	return c.Conn.Close()
}
