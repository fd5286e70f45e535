// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"io"
	"net"
	"sync"
)

// way is one replica's way to a server, which can be closed for that replica alone.
type way struct {
	listener net.Listener
	to       string
	work     sync.WaitGroup

	mu    sync.Mutex // guards what follows
	conns map[*wayConn]struct{}
	// severed: connections end at once; silent, if not nil: nothing comes through until it is closed.
	severed bool
	silent  chan struct{}
}

type wayConn struct{ client, server net.Conn }

func newWay(to string) (*way, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for a replica: %w", err)
	}
	w := &way{listener: l, to: to, conns: map[*wayConn]struct{}{}}
	w.work.Go(func() { between(l, func() string { return w.to }, w.serve) })
	return w, nil
}

func (w *way) address() string { return w.listener.Addr().String() }

func (w *way) close() error {
	err := w.listener.Close()
	w.sever()
	w.work.Wait()
	return err
}

func (w *way) serve(client, server net.Conn) {
	c := &wayConn{client, server}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.severed {
		c.end()
		return
	}
	w.conns[c] = struct{}{}
	w.work.Go(func() { w.pump(c, client, server) })
	w.work.Go(func() { w.pump(c, server, client) })
}

// pump passes on what comes from one side until either ends.
func (w *way) pump(c *wayConn, from io.Reader, to io.Writer) {
	defer func() {
		c.end()
		w.mu.Lock()
		delete(w.conns, c)
		w.mu.Unlock()
	}()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		w.mu.Lock()
		silent := w.silent
		w.mu.Unlock()
		if silent != nil {
			<-silent
		}
		if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
			return
		}
	}
}

// sever ends all connections, and those that are made until open.
func (w *way) sever() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.severed = true
	w.speak()
	for c := range w.conns {
		c.end()
	}
}

// silence lets nothing through until open, although connections stay, as a network does that loses everything. What was sent meanwhile arrives then.
func (w *way) silence() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.silent == nil {
		w.silent = make(chan struct{})
	}
}

func (w *way) open() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.severed = false
	w.speak()
}

// speak lets go on what waits; the caller holds mu.
func (w *way) speak() {
	if w.silent != nil {
		close(w.silent)
		w.silent = nil
	}
}

func (c *wayConn) end() {
	reset(c.client)
	reset(c.server)
}
