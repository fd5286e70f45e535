// SPDX-License-Identifier: Apache-2.0

// Package proxy stands before TCP servers. It passes on what both sides say, in the frames of their protocol, and can
// keep frames back, lose them, fall silent, and break connections.
package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// Handler reads and judges frames. The functions are called by several goroutines, for one direction of a connection by
// one.
type Handler struct {
	// Read reads a frame. If it is nil, a frame is what can be read at once.
	Read func(*bufio.Reader) ([]byte, error)
	// Request is called with each frame of a client, and Answer with each one of a server. They report whether the
	// frame is passed on. An error ends the connection. If they are nil, all frames are passed on.
	Request, Answer func(c *Conn, frame []byte) (pass bool, err error)
}

// Proxy has a listener before each of its servers. Its methods may be called concurrently.
type Proxy struct {
	handler Handler
	work    sync.WaitGroup

	mu        sync.Mutex // guards what follows
	fronts    []*Front
	conns     map[*Conn]struct{}
	connected int
	severed   bool
}

// Front is the part of a proxy before one server.
type Front struct {
	proxy    *Proxy
	listener net.Listener

	// The proxy's mu guards what follows. silent, if it is not nil, is closed when frames are passed on again.
	to     string
	silent chan struct{}
}

// Conn is a connection of a client, with the one to the server.
type Conn struct {
	front          *Front
	client, server net.Conn
	writing        sync.Mutex // to client
	kept           bool       // the proxy's mu guards it
}

// New returns a proxy without servers. The caller closes it.
func New(h Handler) *Proxy {
	if h.Read == nil {
		h.Read = readAvailable
	}
	all := func(*Conn, []byte) (bool, error) { return true, nil }
	if h.Request == nil {
		h.Request = all
	}
	if h.Answer == nil {
		h.Answer = all
	}
	return &Proxy{handler: h, conns: map[*Conn]struct{}{}}
}

// To returns a proxy before one server, which passes on whatever is said.
func To(address string) (*Proxy, error) {
	p := New(Handler{})
	_, err := p.Before(address)
	return p, err
}

// ForTest is [To] with a proxy that is closed when the test ends.
func ForTest(t testing.TB, address string) *Proxy {
	t.Helper()
	p := must.Get(To(address))(t)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// readAvailable reads what has arrived, or waits until something does.
func readAvailable(r *bufio.Reader) ([]byte, error) {
	if _, err := r.Peek(1); err != nil {
		return nil, err
	}
	frame := make([]byte, r.Buffered())
	_, err := r.Read(frame)
	return frame, err
}

// Before puts the proxy before a server at an address.
func (p *Proxy) Before(address string) (*Front, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for a proxy: %w", err)
	}
	f := &Front{proxy: p, listener: l, to: address}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fronts = append(p.fronts, f)
	p.work.Go(f.accept)
	return f, nil
}

// Address is where clients connect to the first server of the proxy.
func (p *Proxy) Address() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fronts[0].Address()
}

// Address is where clients connect to.
func (f *Front) Address() string { return f.listener.Addr().String() }

// Move makes new connections go to another address.
func (f *Front) Move(to string) {
	f.proxy.mu.Lock()
	defer f.proxy.mu.Unlock()
	f.to = to
}

// Silence passes nothing on to and from the servers of these fronts until [Proxy.Open], although connections stay, as a
// network does that loses everything. What was sent meanwhile arrives then. Without fronts it is for all servers.
func (p *Proxy) Silence(fronts ...*Front) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(fronts) == 0 {
		fronts = p.fronts
	}
	for _, f := range fronts {
		if f.silent == nil {
			f.silent = make(chan struct{})
		}
	}
}

// wait returns when the server is not silent.
func (f *Front) wait() {
	f.proxy.mu.Lock()
	silent := f.silent
	f.proxy.mu.Unlock()
	if silent != nil {
		<-silent
	}
}

func (f *Front) accept() {
	for {
		client, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.proxy.mu.Lock()
		to := f.to
		f.proxy.mu.Unlock()
		server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", to)
		if err != nil {
			reset(client) // as if no server listened
			continue
		}
		f.proxy.serve(&Conn{front: f, client: client, server: server})
	}
}

func (p *Proxy) serve(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.severed {
		c.End()
		return
	}
	p.conns[c] = struct{}{}
	p.connected++
	p.work.Go(func() { p.pump(c, c.client, p.handler.Request, c.Request) })
	p.work.Go(func() { p.pump(c, c.server, p.handler.Answer, c.Answer) })
}

// pump passes on what comes from one side until either ends.
func (p *Proxy) pump(c *Conn, from net.Conn, judge func(*Conn, []byte) (bool, error), to func([]byte) error) {
	r := bufio.NewReaderSize(from, 64<<10)
	for {
		frame, err := p.handler.Read(r)
		if err != nil {
			break
		}
		c.front.wait()
		pass, err := judge(c, frame)
		if err == nil && pass {
			err = to(frame)
		}
		if err != nil {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.kept && from == c.client {
		return
	}
	delete(p.conns, c)
	c.End()
}

// Connected returns how many connections there have been.
func (p *Proxy) Connected() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.connected
}

// Cut ends every connection, as a firewall that forgets them does, and returns how many there were.
func (p *Proxy) Cut() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		reset(c.client)
		if !c.kept {
			reset(c.server)
		}
		n++
	}
	return n
}

// Sever ends every connection, and those that are made until [Proxy.Open].
func (p *Proxy) Sever() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.severed = true
	p.speak()
	for c := range p.conns {
		c.End()
	}
}

// Open passes on everything again.
func (p *Proxy) Open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.severed = false
	p.speak()
}

// speak passes on what waits; the caller holds mu.
func (p *Proxy) speak() {
	for _, f := range p.fronts {
		if f.silent != nil {
			close(f.silent)
			f.silent = nil
		}
	}
}

// Close ends the proxy with all its connections.
func (p *Proxy) Close() error {
	p.Sever()
	p.mu.Lock()
	fronts := p.fronts
	p.mu.Unlock()
	var errs []error
	for _, f := range fronts {
		errs = append(errs, f.listener.Close())
	}
	p.work.Wait()
	return errors.Join(errs...)
}

// Keep makes the server's side of a connection stay when the client's ends, for a request that is handed over later.
func (c *Conn) Keep() {
	c.front.proxy.mu.Lock()
	defer c.front.proxy.mu.Unlock()
	c.kept = true
}

// Request sends a frame to the server.
func (c *Conn) Request(frame []byte) error {
	_, err := c.server.Write(frame)
	return err
}

// Answer sends a frame to the client.
func (c *Conn) Answer(frame []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.client.Write(frame)
	return err
}

// End breaks both sides.
func (c *Conn) End() {
	reset(c.client)
	reset(c.server)
}

// reset closes a connection so that the other side gets an error and not an end.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close() // it may be closed
}
