// SPDX-License-Identifier: Apache-2.0

package sinktest

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// Proxy forwards TCP connections to a broker, and cuts them when told to.
type Proxy struct {
	listener net.Listener
	target   func() string
	work     sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
}

// NewProxy returns a proxy that ends with the test. target is asked for each connection.
func NewProxy(t *testing.T, target func() string) *Proxy {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	p := &Proxy{listener: l, target: target, conns: map[net.Conn]bool{}}
	p.work.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		p.Cut()
		p.work.Wait()
	})
	return p
}

// Addr is where to connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Cut closes all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.forward(c) })
	}
}

func (p *Proxy) forward(c net.Conn) {
	defer c.Close() //nolint:errcheck // it is over either way
	b, err := net.Dial("tcp", p.target())
	if err != nil {
		return
	}
	defer b.Close() //nolint:errcheck // likewise
	if !p.remember(c, b) {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(c, b)
		_ = c.Close()
	})
	_, _ = io.Copy(b, c)
	_ = b.Close()
	back.Wait()
	p.mu.Lock()
	delete(p.conns, c)
	delete(p.conns, b)
	p.mu.Unlock()
}

func (p *Proxy) remember(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = true
	}
	return !p.closed
}
