// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// natsProxy stands between the bridge and its broker. It passes everything on as it is, and can keep JetStream's answers to
// published messages back; pings and all else pass nevertheless, so that the bridge sees a broker that is well.
type natsProxy struct {
	listener net.Listener
	to       string
	work     sync.WaitGroup

	mu    sync.Mutex // guards what follows
	conns map[*natsConn]struct{}
	mode  mode
	held  []heldAnswer
	stats wireStats
	done  bool
	// committed is when a commit of the checkpoint was answered at last.
	committed time.Time
}

// heldAnswer is one that waits in the proxy.
type heldAnswer struct {
	to    *natsConn
	frame []byte
	since time.Time
}

// natsConn is one connection of the bridge.
type natsConn struct {
	client, server net.Conn
	writing        sync.Mutex // to client
}

func newNATSProxy(to string) (*natsProxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the broker's proxy: %w", err)
	}
	p := &natsProxy{listener: l, to: to, conns: map[*natsConn]struct{}{}}
	p.work.Go(func() {
		between(l, func() string { return p.to }, func(client, server net.Conn) { p.serve(&natsConn{client: client, server: server}) })
	})
	return p, nil
}

func (p *natsProxy) address() string { return p.listener.Addr().String() }

func (p *natsProxy) close() error {
	p.mu.Lock()
	p.done = true
	p.mu.Unlock()
	err := p.listener.Close()
	p.cut()
	p.work.Wait()
	return err
}

// between hands on each connection that l accepts, with one to the address that to returns then, until l is closed.
func between(l net.Listener, to func() string, serve func(client, server net.Conn)) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", to())
		if err != nil {
			reset(client) // as if nobody listened
			continue
		}
		serve(client, server)
	}
}

func (p *natsProxy) serve(c *natsConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		c.end()
		return
	}
	p.conns[c] = struct{}{}
	p.stats.Connected++
	p.work.Go(func() { p.pump(c, c.client, p.toServer) })
	p.work.Go(func() { p.pump(c, c.server, p.toClient) })
}

// pump passes on what comes from one side until either ends.
func (p *natsProxy) pump(c *natsConn, from io.Reader, to func(*natsConn, []byte) error) {
	defer func() {
		c.end()
		p.mu.Lock()
		delete(p.conns, c)
		p.mu.Unlock()
	}()
	r := bufio.NewReaderSize(from, 64<<10)
	for {
		frame, err := readFrame(r)
		if err != nil {
			return
		}
		if to(c, frame) != nil {
			return
		}
	}
}

func (p *natsProxy) toServer(c *natsConn, frame []byte) error {
	if isPublish(frame) {
		p.mu.Lock()
		p.stats.Published++
		p.mu.Unlock()
	}
	_, err := c.server.Write(frame)
	return err
}

func (p *natsProxy) toClient(c *natsConn, frame []byte) error {
	if isCommit(frame) {
		p.mu.Lock()
		p.committed = time.Now()
		p.mu.Unlock()
	} else if isAnswer(frame) && p.kept(c, frame) {
		return nil
	}
	return c.write(frame)
}

// kept deals with an answer that is not to be passed on now.
func (p *natsProxy) kept(c *natsConn, frame []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.mode {
	case hold:
		p.held = append(p.held, heldAnswer{c, frame, time.Now()})
	case drop:
		p.stats.Lost++
	default:
		p.stats.Answered++
		return false
	}
	return true
}

// lastCommit is when a commit of the checkpoint was answered at last.
func (p *natsProxy) lastCommit() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.committed
}

func (p *natsProxy) set(m mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = m
}

func (p *natsProxy) now() (stats wireStats, held int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats, len(p.held)
}

func (p *natsProxy) release(older time.Duration) (n int) {
	p.mu.Lock()
	for n < len(p.held) && time.Since(p.held[n].since) >= older {
		n++
	}
	due := p.held[:n:n]
	p.held = p.held[n:]
	p.stats.Answered += n
	p.mu.Unlock()
	for _, h := range due {
		_ = h.to.write(h.frame)
	}
	return n
}

func (p *natsProxy) forget() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n = len(p.held)
	p.stats.Lost += n
	p.held, p.mode = nil, pass
	return n
}

func (p *natsProxy) heal() {
	p.set(pass)
	p.release(0)
}

func (p *natsProxy) cut() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.end()
		n++
	}
	p.stats.Cut += n
	return n
}

func (c *natsConn) write(frame []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.client.Write(frame)
	return err
}

func (c *natsConn) end() {
	reset(c.client)
	reset(c.server)
}

// reset closes a connection so that the other side gets an error and not an end.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return // it is gone either way
	}
}
