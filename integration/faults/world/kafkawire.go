// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"
)

// kafkaWire stands between the bridge and all brokers: a proxy before each. It passes on what both sides say as it is, in whole requests and
// answers. Answers to what is published to the log can be held or lost; requests that publish to it can be kept, whatever
// becomes of the bridge, and handed over later; a broker can be made to fall silent.
type kafkaWire struct {
	topic, checkpoint string
	work              sync.WaitGroup

	mu      sync.Mutex // guards what follows
	proxies []*kafkaProxy
	ways    map[int][]*way // by replica
	conns   map[*kafkaConn]struct{}
	mode    mode
	held    []heldFrame
	keeping bool
	kept    []keptRequest
	// refusals are the error codes of the answers to what was kept.
	refusals  []int16
	committed time.Time
	stats     wireStats
	done      bool
}

// kafkaProxy is the part of the wire before one broker, for one replica.
type kafkaProxy struct {
	broker, replica int
	listener        net.Listener
	to              string
	reached         string // where the replica does
	// silent, if not nil, is closed when the broker speaks again.
	silent chan struct{}
}

// kafkaConn is one connection of the bridge.
type kafkaConn struct {
	proxy          *kafkaProxy
	client, server net.Conn
	writing        sync.Mutex // to client
	// asked has the topics of the Produce requests that have no answer yet, by their number; kept says that the broker's side stays when the
	// bridge's ends. The wire's mu guards both.
	asked map[uint32]string
	kept  bool
}

// heldFrame is one that waits in the wire: an answer to something published, or what came behind it.
type heldFrame struct {
	to     *kafkaConn
	frame  []byte
	since  time.Time
	answer bool
}

type keptRequest struct {
	of    *kafkaConn
	frame []byte
}

func newKafkaWire(topic, checkpoint string) *kafkaWire {
	return &kafkaWire{topic: topic, checkpoint: checkpoint, conns: map[*kafkaConn]struct{}{}, ways: map[int][]*way{}}
}

// advertise returns what puts a proxy before a broker for a replica, and a way before that if it is to have one, or moves the proxy that it has, and says where the replica
// reaches it.
func (w *kafkaWire) advertise(replica int, own bool) func(broker int, address string) (string, error) {
	return func(broker int, address string) (string, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, p := range w.proxies {
			if p.broker == broker && p.replica == replica {
				p.to = address
				return p.reached, nil
			}
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", fmt.Errorf("listen for a broker's proxy: %w", err)
		}
		p := &kafkaProxy{broker: broker, replica: replica, listener: l, to: address, reached: l.Addr().String()}
		w.proxies = append(w.proxies, p)
		w.work.Go(func() { w.accept(p) })
		if own {
			before, err := newWay(p.reached)
			if err != nil {
				return "", err
			}
			w.ways[replica], p.reached = append(w.ways[replica], before), before.address()
		}
		return p.reached, nil
	}
}

// waysOf are those of a replica, which the caller closes.
func (w *kafkaWire) waysOf(replica int) []*way {
	w.mu.Lock()
	defer w.mu.Unlock()
	ways := w.ways[replica]
	delete(w.ways, replica)
	return ways
}

func (w *kafkaWire) close() error {
	w.heal()
	w.mu.Lock()
	w.done = true
	proxies, ways := slices.Clone(w.proxies), slices.Concat(slices.Collect(maps.Values(w.ways))...)
	w.mu.Unlock()
	var errs []error
	for _, of := range ways { // that nobody has asked for
		errs = append(errs, of.close())
	}
	for _, p := range proxies {
		errs = append(errs, p.listener.Close())
	}
	w.cut()
	w.work.Wait()
	return errors.Join(errs...)
}

func (w *kafkaWire) accept(p *kafkaProxy) {
	to := func() string {
		w.mu.Lock()
		defer w.mu.Unlock()
		return p.to
	}
	between(p.listener, to, func(client, server net.Conn) {
		w.serve(&kafkaConn{proxy: p, client: client, server: server, asked: map[uint32]string{}})
	})
}

func (w *kafkaWire) serve(c *kafkaConn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		c.end()
		return
	}
	w.conns[c] = struct{}{}
	w.stats.Connected++
	w.work.Go(func() { w.pump(c, c.client, w.toServer) })
	w.work.Go(func() { w.pump(c, c.server, w.toClient) })
}

// pump passes on what comes from one side until either ends.
func (w *kafkaWire) pump(c *kafkaConn, from net.Conn, to func(*kafkaConn, []byte) error) {
	for {
		frame, err := readKafkaFrame(from)
		if err != nil {
			break
		}
		w.wait(c.proxy)
		if to(c, frame) != nil {
			break
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.kept && from == c.client {
		return // the broker's side waits for what was kept
	}
	delete(w.conns, c)
	c.end()
}

// wait returns when a broker is not silent.
func (w *kafkaWire) wait(p *kafkaProxy) {
	w.mu.Lock()
	silent := p.silent
	w.mu.Unlock()
	if silent != nil {
		<-silent
	}
}

func (w *kafkaWire) toServer(c *kafkaConn, frame []byte) error {
	if len(frame) >= 12 {
		if topic := producedTo(frame); topic != "" && w.keeps(c, frame, topic) {
			return nil
		}
	}
	_, err := c.server.Write(frame)
	return err
}

// keeps takes note of a request that publishes something, and keeps it if it is to.
func (w *kafkaWire) keeps(c *kafkaConn, frame []byte, topic string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.asked[requestCorrelation(frame)] = topic
	if topic != w.topic {
		return false
	}
	w.stats.Published++
	if w.keeping {
		c.kept = true
		w.kept = append(w.kept, keptRequest{c, frame})
	}
	return w.keeping
}

func (w *kafkaWire) toClient(c *kafkaConn, frame []byte) error {
	passed, err := w.answered(c, frame)
	if err != nil || !passed {
		return err
	}
	return c.write(frame)
}

// answered reports whether an answer is to be passed on now.
func (w *kafkaWire) answered(c *kafkaConn, frame []byte) (passed bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	topic := c.asked[answerCorrelation(frame)]
	delete(c.asked, answerCorrelation(frame))
	if topic == w.checkpoint && topic != "" {
		w.committed = time.Now()
	}
	ours := topic == w.topic
	behind := slices.ContainsFunc(w.held, func(h heldFrame) bool { return h.to == c })
	switch {
	case ours && c.kept:
		code, err := producedWith(frame)
		w.refusals = append(w.refusals, code)
		return false, err
	case ours && w.mode == drop:
		w.stats.Lost++
		return false, errLost
	case ours && w.mode == hold, behind:
		w.held = append(w.held, heldFrame{c, frame, time.Now(), ours})
		return false, nil
	case ours:
		w.stats.Answered++
	}
	return true, nil
}

// errLost ends a connection with an answer: whoever waits for one cannot take the next one for it.
var errLost = errors.New("an answer was lost")

func (w *kafkaWire) set(m mode) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mode = m
}

func (w *kafkaWire) now() (stats wireStats, held int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.held {
		if h.answer {
			held++
		}
	}
	return w.stats, held
}

// lastCommit is when the checkpoint's topic was written to at last.
func (w *kafkaWire) lastCommit() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.committed
}

func (w *kafkaWire) release(older time.Duration) (n int) {
	w.mu.Lock()
	due := 0
	for due < len(w.held) && time.Since(w.held[due].since) >= older {
		if w.held[due].answer {
			n++
		}
		due++
	}
	frames := w.held[:due:due]
	w.held = w.held[due:]
	w.stats.Answered += n
	w.mu.Unlock()
	for _, h := range frames {
		_ = h.to.write(h.frame)
	}
	return n
}

func (w *kafkaWire) forget() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.held {
		if h.answer {
			n++
		}
		h.to.end()
	}
	w.stats.Lost += n
	w.held, w.mode = nil, pass
	return n
}

func (w *kafkaWire) cut() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		c.end()
		n++
	}
	w.stats.Cut += n
	return n
}

// heal passes on everything, and what is kept is lost.
func (w *kafkaWire) heal() {
	w.mu.Lock()
	for _, p := range w.proxies {
		p.speak()
	}
	for _, k := range w.kept {
		k.of.end()
		delete(w.conns, k.of)
	}
	w.mode, w.keeping, w.kept, w.refusals = pass, false, nil, nil
	w.mu.Unlock()
	w.release(0)
}

// silence makes a broker say and hear nothing, although its connections stay, until heal.
func (w *kafkaWire) silence(broker int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.proxies {
		if p.broker == broker && p.silent == nil {
			p.silent = make(chan struct{})
		}
	}
}

func (p *kafkaProxy) speak() {
	if p.silent != nil {
		close(p.silent)
		p.silent = nil
	}
}

// keep keeps what is published to the log from now on, or passes it on again. What is kept stays so.
func (w *kafkaWire) keep(keeping bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keeping = keeping
}

func (w *kafkaWire) keptNow() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.kept)
}

// deliver hands over what was kept, and returns the brokers' error codes.
func (w *kafkaWire) deliver(ctx context.Context) ([]int16, error) {
	w.mu.Lock()
	kept := w.kept
	w.mu.Unlock()
	for _, k := range kept {
		if _, err := k.of.server.Write(k.frame); err != nil {
			return nil, fmt.Errorf("%w: the broker has closed the connection of a request that was kept: %w", ErrMissed, err)
		}
	}
	var codes []int16
	err := poll(ctx, patience, "the answers to requests that were kept", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		codes = slices.Clone(w.refusals)
		return len(codes) >= len(kept)
	})
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", ErrMissed, err)
	}
	return codes, err
}

func (c *kafkaConn) write(frame []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.client.Write(frame)
	return err
}

func (c *kafkaConn) end() {
	reset(c.client)
	reset(c.server)
}
