// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/tlsfiles"
)

// dialer opens connections which always have a deadline: kafka-go takes it away for the SASL exchange, where a broker
// that freezes would hang the client. It knows the connections that are open, because kafka-go does not end
// what waits on one for an answer.
type dialer struct {
	net.Dialer
	longest time.Duration

	mu     sync.Mutex
	open   map[*hurried]struct{}
	closed bool
}

func newDialer(longest time.Duration) *dialer {
	return &dialer{Dialer: net.Dialer{Timeout: dialTimeout}, longest: longest, open: map[*hurried]struct{}{}}
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w; is Kafka running there?", address, err)
	}
	h := &hurried{Conn: c, dialer: d}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		_ = c.Close()
		return nil, fmt.Errorf("connect to %s: %w", address, ErrClosed)
	}
	d.open[h] = struct{}{}
	return h, nil
}

// close closes all connections, and those to come.
func (d *dialer) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for h := range d.open {
		_ = h.Conn.Close()
	}
}

// hurried is a connection on which no deadline means the longest one. A connection that waits in the pool for its next
// request is not read.
type hurried struct {
	net.Conn
	dialer *dialer
}

// Close implements [net.Conn].
func (h *hurried) Close() error {
	h.dialer.mu.Lock()
	delete(h.dialer.open, h)
	h.dialer.mu.Unlock()
	return h.Conn.Close()
}

func (h *hurried) bound(t time.Time) time.Time {
	if t.IsZero() {
		return time.Now().Add(h.dialer.longest)
	}
	return t
}

// SetDeadline implements [net.Conn].
func (h *hurried) SetDeadline(t time.Time) error { return h.Conn.SetDeadline(h.bound(t)) }

// SetReadDeadline implements [net.Conn].
func (h *hurried) SetReadDeadline(t time.Time) error { return h.Conn.SetReadDeadline(h.bound(t)) }

// SetWriteDeadline implements [net.Conn].
func (h *hurried) SetWriteDeadline(t time.Time) error { return h.Conn.SetWriteDeadline(h.bound(t)) }

// TLS is how the connection is protected. Any field that is set asks for TLS, as Enabled alone does.
type TLS struct {
	Enabled bool
	// CAFile holds what a broker's certificate is checked against (default: the system's). It is read once.
	CAFile string
	// CertFile and KeyFile are the client's certificate. They are read again for each connection.
	CertFile, KeyFile string
	// ServerName is the name in the brokers' certificates (default: the host connected to).
	ServerName string
}

// config returns nil where no TLS is asked for. The error says everything that is wrong with the files.
func (t TLS) config() (*tls.Config, error) {
	if t == (TLS{}) {
		return nil, nil
	}
	c, err := tlsfiles.Files{CA: t.CAFile, Cert: t.CertFile, Key: t.KeyFile}.Config()
	if err != nil {
		return nil, err
	}
	c.ServerName = t.ServerName
	return c, nil
}
