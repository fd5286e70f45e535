// SPDX-License-Identifier: Apache-2.0

package kafkasink

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
)

// apiProduce is the number of the request that publishes.
const apiProduce = 0

// proxy stands before a broker. It forwards whole requests, so that one can be held back, and whole answers, so that one can be lost.
type proxy struct {
	listener net.Listener
	target   string
	work     sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
	// held says whether a request waits until released is closed.
	held     func(api int16, request []byte) bool
	released chan struct{}
	// waiting is how many do.
	waiting atomic.Int32
	// seen is told of each request, behind its length. It says whether the answer is lost, with the connection.
	seen func(api int16, request []byte) (lose bool)
}

func newProxy(target string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, target: target, conns: map[net.Conn]bool{}}
	p.work.Go(p.accept)
	return p, nil
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.release()
	p.cut()
	p.work.Wait()
}

// cut closes all connections of clients, and those to the broker unless a request is held back on them.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

// hold holds back the requests that f chooses, by their number and what is behind their length, from now on until release. Their connections to the broker stay, whatever becomes of the client.
func (p *proxy) hold(f func(api int16, request []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held, p.released = f, make(chan struct{})
}

func (p *proxy) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil {
		close(p.released)
	}
	p.held = nil
}

// watch has f told of each request.
func (p *proxy) watch(f func(api int16, request []byte) (lose bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = f
}

func (p *proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.forward(c) })
	}
}

func (p *proxy) forward(client net.Conn) {
	defer client.Close()
	broker, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer broker.Close()
	p.mu.Lock()
	p.conns[client] = true
	p.mu.Unlock()
	var lose atomic.Bool
	var back sync.WaitGroup
	back.Go(func() {
		for {
			answer, err := frame(broker)
			if err != nil || lose.Load() {
				break
			}
			if _, err := client.Write(answer); err != nil {
				break
			}
		}
		_ = client.Close()
	})
	for {
		request, err := frame(client)
		if err != nil {
			break
		}
		if p.pass(request) {
			lose.Store(true)
		}
		if _, err := broker.Write(request); err != nil {
			break
		}
	}
	if !lose.Load() {
		_ = broker.Close()
	}
	back.Wait()
	p.mu.Lock()
	delete(p.conns, client)
	p.mu.Unlock()
}

// pass returns when a request may go on, and whether its answer is to be lost.
func (p *proxy) pass(request []byte) (lose bool) {
	api := int16(binary.BigEndian.Uint16(request[4:]))
	p.mu.Lock()
	held, released, seen := p.held, p.released, p.seen
	p.mu.Unlock()
	if seen != nil {
		lose = seen(api, request[4:])
	}
	if held != nil && held(api, request[4:]) {
		p.waiting.Add(1)
		<-released
		p.waiting.Add(-1)
	}
	return lose
}

// frame reads a request or an answer, with its length.
func frame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	b := slices.Grow(size[:], int(binary.BigEndian.Uint32(size[:])))
	b = b[:4+int(binary.BigEndian.Uint32(size[:]))]
	_, err := io.ReadFull(r, b[4:])
	return b, err
}
