// SPDX-License-Identifier: Apache-2.0

package natsclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	gonats "github.com/nats-io/nats.go"
)

// Dial returns a connection to one of the servers of c. What options set comes on top of that. The error says
// everything that is wrong with c, or names the servers, and says why there is no connection, as [Explain] does. It
// holds no secret.
func Dial(c Config, options ...gonats.Option) (*gonats.Conn, error) {
	target := c.target()
	c = c.WithDefaults()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	o := gonats.GetDefaultOptions()
	o.Servers, o.Name, o.InProcessServer = c.Servers, c.Name, c.InProcess
	for _, set := range append(append(c.Auth.options(), c.TLS.options()...), options...) {
		if err := set(&o); err != nil {
			return nil, Explain(err)
		}
	}
	dialer := &recorder{next: o.CustomDialer}
	if dialer.next == nil {
		dialer.next = &net.Dialer{Timeout: o.Timeout}
	}
	o.CustomDialer = dialer
	nc, err := o.Connect()
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", target, dialer.explain(err))
	}
	return nc, nil
}

// recorder remembers why the last server could not be reached: the client forgets that if no server answers.
type recorder struct {
	next gonats.CustomDialer

	mu   sync.Mutex
	last error
}

// Dial implements [gonats.CustomDialer].
func (r *recorder) Dial(network, address string) (net.Conn, error) {
	c, err := r.next.Dial(network, address)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = err
	return c, err
}

// explain says why there is no connection, and what to look at.
func (r *recorder) explain(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last != nil && errors.Is(err, gonats.ErrNoServers) {
		err = r.last
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return fmt.Errorf("%w; is the NATS server, or the bridge that contains it, running there?", err)
	}
	return Explain(err)
}

// Explain says what to look at where the library's error only says that something failed. Any other error it returns as
// it is.
func Explain(err error) error {
	switch {
	case refusesCredentials(err):
		return fmt.Errorf("the broker refuses the credentials: %w", err)
	case errors.Is(err, gonats.ErrSecureConnWanted):
		return fmt.Errorf("TLS is configured here and not on the server: %w", err)
	case errors.Is(err, gonats.ErrSecureConnRequired):
		return fmt.Errorf("the server requires TLS: %w", err)
	default:
		return err
	}
}

// IsRefusal reports whether a connection failed by what is configured, which no waiting cures.
func IsRefusal(err error) bool {
	var certificate *tls.CertificateVerificationError
	return refusesCredentials(err) || errors.As(err, &certificate) ||
		errors.Is(err, gonats.ErrSecureConnWanted) || errors.Is(err, gonats.ErrSecureConnRequired)
}

func refusesCredentials(err error) bool {
	for _, known := range []error{
		gonats.ErrAuthorization, gonats.ErrAuthExpired, gonats.ErrAuthRevoked, gonats.ErrAccountAuthExpired,
		gonats.ErrNkeysNotSupported,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// Dialer makes the connections of a client, and ends them with its context: no server that has stopped answering delays
// the end. It is given to [gonats.SetCustomDialer], whose interface has no context: hence it is kept here.
type Dialer struct {
	ctx     context.Context
	timeout time.Duration
	before  func() error
}

// NewDialer returns a dialer that tries each server for a time. It asks before whether to try at all, if that is not
// nil.
func NewDialer(ctx context.Context, timeout time.Duration, before func() error) *Dialer {
	if before == nil {
		before = func() error { return nil }
	}
	return &Dialer{ctx: ctx, timeout: timeout, before: before}
}

// Dial implements [gonats.CustomDialer].
func (d *Dialer) Dial(network, address string) (net.Conn, error) {
	if err := d.before(); err != nil {
		return nil, err
	}
	c, err := (&net.Dialer{Timeout: d.timeout}).DialContext(d.ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, forget: context.AfterFunc(d.ctx, func() { _ = c.Close() })}, nil
}

// InProcess returns a provider that asks before each connection as the dialer does.
func (d *Dialer) InProcess(provider gonats.InProcessConnProvider) gonats.InProcessConnProvider {
	return &inProcess{provider, d.before}
}

type inProcess struct {
	provider gonats.InProcessConnProvider
	before   func() error
}

// InProcessConn implements [gonats.InProcessConnProvider].
func (p *inProcess) InProcessConn() (net.Conn, error) {
	if err := p.before(); err != nil {
		return nil, err
	}
	return p.provider.InProcessConn()
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
