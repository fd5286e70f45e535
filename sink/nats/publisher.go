// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	gonats "github.com/nats-io/nats.go"

	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats/header"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats/window"
)

// publisher has the messages that are under way, and settles each once.
type publisher struct {
	cfg    *Config
	state  *availability
	broker *broker
	acked  *acknowledged

	window   *window.Window
	usual    []byte // what the usual answer begins with
	encoders sync.Pool
	lookups  chan lookup // what waits for the last message of its subject; as long as the window
	clock    atomic.Uint32
	// publishing is read-locked while a message is sent, answering locked while an answer is dealt with.
	publishing sync.RWMutex
	answering  sync.Mutex

	duplicates, conflicts, timeouts atomic.Uint64
}

func newPublisher(cfg *Config, state *availability, b *broker, acked *acknowledged) *publisher {
	p := &publisher{
		cfg: cfg, state: state, broker: b, acked: acked,
		window:  window.New(cfg.Window, gonats.NewInbox()),
		usual:   usualAnswer(cfg.Stream),
		lookups: make(chan lookup, cfg.Window),
	}
	p.encoders.New = func() any { return header.NewEncoder(cfg.Stream) }
	return p
}

// publish sends m when there is a slot for it. When it returns, somebody else settles m, or it is settled.
func (p *publisher) publish(ctx context.Context, m *sink.Message, done sink.Done) {
	i, err := p.window.Acquire(ctx)
	if err != nil {
		done(sink.Receipt{}, fmt.Errorf("publish %s: %w", m.Subject, err))
		return
	}
	p.publishing.RLock()
	defer p.publishing.RUnlock()
	if err := p.state.err(); err != nil {
		p.finish(i, m, done, sink.Receipt{}, err)
		return
	}
	gen, reply := p.window.Put(i, m, done, p.clock.Load())
	err = p.send(m, reply)
	answer, failure := p.window.Sent(i)
	switch {
	case answer != nil:
		p.answered(answer)
	case err != nil:
		p.fail(i, gen, err)
	case failure != nil:
		p.fail(i, gen, failure)
	}
}

// send hands m to the connection.
func (p *publisher) send(m *sink.Message, reply string) error {
	w := p.encoders.Get().(*header.Encoder)
	defer p.encoders.Put(w)
	err := p.broker.conn.Load().PublishMsg(w.Encode(m, reply))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, gonats.ErrMaxPayload): // found here, before anything was sent
		return sink.TooLarge(fmt.Errorf("%d bytes of data: %w", len(m.Data), err))
	case errors.Is(err, gonats.ErrBadHeaderMsg), errors.Is(err, gonats.ErrBadSubject):
		return sink.Permanent(fmt.Errorf("%d bytes of data: %w", len(m.Data), err))
	case errors.Is(err, gonats.ErrReconnectBufExceeded):
		return errDisconnected
	default:
		return err
	}
}

// fail settles the message of the generation in slot i, unless somebody has.
func (p *publisher) fail(i int, gen uint64, err error) {
	if m, done, ok := p.window.Take(i, gen, nil, err); ok {
		p.finish(i, m, done, sink.Receipt{}, err)
	}
}

// failWhere settles, in the order of the slots, every message for which pick returns an error.
func (p *publisher) failWhere(pick func(m *sink.Message, tick uint32) error) (n uint64) {
	type victim struct {
		slot int
		gen  uint64
		err  error
	}
	var victims []victim
	p.window.Each(func(i int, gen uint64, m *sink.Message, tick uint32) {
		if err := pick(m, tick); err != nil {
			victims = append(victims, victim{i, gen, err})
		}
	})
	for _, v := range victims {
		p.fail(v.slot, v.gen, v.err)
	}
	return uint64(len(victims))
}

func (p *publisher) failAll(err error) { p.failWhere(func(*sink.Message, uint32) error { return err }) }

// tick fails what has waited too long.
func (p *publisher) tick(ctx context.Context) {
	t := time.NewTicker(max(p.cfg.AckTimeout/ticks, time.Millisecond))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now, late := p.clock.Add(1), p.late()
		n := p.failWhere(func(_ *sink.Message, then uint32) error {
			if now-then <= ticks {
				return nil
			}
			p.timeouts.Add(1) // before anybody hears of it
			return late
		})
		if n > 0 {
			p.state.look() // a stream that was told not to acknowledge is silent too
		}
	}
}

// late is the error of a message that was not acknowledged in time.
func (p *publisher) late() error {
	if p.cfg.Broken != nil {
		if err := p.cfg.Broken(); err != nil {
			return fmt.Errorf("no acknowledgement within %v: %w", p.cfg.AckTimeout, err)
		}
	}
	return fmt.Errorf("no acknowledgement within %v", p.cfg.AckTimeout)
}

// settleAll fails everything under way on a connection that is closed, and waits for those who settle something else.
func (p *publisher) settleAll(err error) {
	p.publishing.Lock()   // who comes later finds the sink down, or the connection closed
	p.publishing.Unlock() //nolint:staticcheck // only to wait
	p.failAll(err)
	p.answering.Lock()   // later answers find nothing
	p.answering.Unlock() //nolint:staticcheck // only to wait
}

// end settles the messages that are left. Nothing else settles them then.
func (p *publisher) end(err error) {
	for len(p.lookups) > 0 {
		l := <-p.lookups
		p.finish(l.slot, l.m, l.done, sink.Receipt{}, err)
	}
	p.failAll(err)
}
