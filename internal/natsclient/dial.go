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
// everything that is wrong with c, or what [Explain] makes of the client's; it holds no secret.
func Dial(c Config, options ...gonats.Option) (*gonats.Conn, error) {
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
	nc, err := o.Connect()
	if err != nil {
		return nil, Explain(err)
	}
	return nc, nil
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

	mu   sync.Mutex
	last error
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
	d.mu.Lock()
	d.last = err
	d.mu.Unlock()
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

// Cause returns why the last server could not be reached; nil if it was. The client forgets that if no server answers.
func (d *Dialer) Cause() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}

// Explain returns the [Dialer.Cause], which names a server, of an error that only says that there is none.
func (d *Dialer) Explain(err error) error {
	if cause := d.Cause(); cause != nil && errors.Is(err, gonats.ErrNoServers) {
		return cause
	}
	return err
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
