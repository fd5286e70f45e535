// SPDX-License-Identifier: Apache-2.0

package kafkasink

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/proxy"
)

const apiProduce = proxy.KafkaProduce

// brokerProxy stands before a broker. A request can be held back, and an answer can be lost.
type brokerProxy struct {
	*proxy.Proxy

	mu sync.Mutex // guards what follows
	// held says whether a request waits until released is closed.
	held     func(api int16, request []byte) bool
	released chan struct{}
	// seen is told of each request, behind its length. It says whether the answer is lost, with the connection.
	seen func(api int16, request []byte) (lose bool)
	lost map[*proxy.Conn]bool

	// waiting is how many requests are held back.
	waiting atomic.Int32
}

func newProxy(target string) (*brokerProxy, error) {
	p := &brokerProxy{lost: map[*proxy.Conn]bool{}}
	p.Proxy = proxy.New(proxy.Handler{Read: proxy.ReadKafka, Request: p.request, Answer: p.answer})
	_, err := p.Before(target)
	return p, err
}

func (p *brokerProxy) close() error {
	p.release()
	return p.Close()
}

// hold holds back the requests that f chooses, by their number and what is behind their length, from now on until release.
// Their connections to the broker stay, whatever becomes of the client.
func (p *brokerProxy) hold(f func(api int16, request []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held, p.released = f, make(chan struct{})
}

func (p *brokerProxy) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil {
		close(p.released)
	}
	p.held = nil
}

// watch has f told of each request.
func (p *brokerProxy) watch(f func(api int16, request []byte) (lose bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = f
}

// request returns when a request may go on.
func (p *brokerProxy) request(c *proxy.Conn, frame []byte) (bool, error) {
	api, request := proxy.KafkaAPI(frame), frame[4:]
	p.mu.Lock()
	held, released, seen := p.held, p.released, p.seen
	p.mu.Unlock()
	if seen != nil && seen(api, request) {
		c.Keep() // the broker is to read the request
		p.mu.Lock()
		p.lost[c] = true
		p.mu.Unlock()
	}
	if held != nil && held(api, request) {
		c.Keep()
		p.waiting.Add(1)
		<-released
		p.waiting.Add(-1)
	}
	return true, nil
}

func (p *brokerProxy) answer(c *proxy.Conn, _ []byte) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost[c] {
		delete(p.lost, c)
		return false, errors.New("an answer is lost")
	}
	return true, nil
}
