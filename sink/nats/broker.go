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
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats/header"
)

// broker is asked about the stream, on the connection that there is.
type broker struct {
	stream, domain string
	// timeout is how long an answer is waited for.
	timeout time.Duration
	conn    atomic.Pointer[gonats.Conn]

	mu       sync.Mutex
	calls    map[*call]struct{} // what is waited for besides acknowledgements
	denied   error              // the last permission the broker denied, at deniedAt
	deniedAt time.Time
}

func newBroker(cfg *Config) *broker {
	return &broker{stream: cfg.Stream, domain: cfg.Domain, timeout: cfg.AckTimeout, calls: map[*call]struct{}{}}
}

// call is something that is waited for.
type call struct {
	end context.CancelCauseFunc
	// uses reports whether it publishes to a subject; nil: to none that may be denied.
	uses func(subject string) bool
}

func (b *broker) jetstream(nc *gonats.Conn) (js jetstream.JetStream, err error) {
	if b.domain == "" {
		js, err = jetstream.New(nc)
	} else {
		js, err = jetstream.NewWithDomain(nc, b.domain)
	}
	if err != nil {
		return nil, fmt.Errorf("jetstream: %w", err)
	}
	return js, nil
}

// request returns a context for one request to the broker, which its caller ends. It ends by itself after the
// acknowledgement timeout, and with the connection: the library would wait on for an answer that cannot come.
func (b *broker) request(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, end := b.call(ctx, nil)
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	return ctx, func() { cancel(); end() }
}

// call returns a context that ends with the connection, for what may last. It also ends when the broker denies a
// subject that is used.
func (b *broker) call(ctx context.Context, uses func(subject string) bool) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	c := &call{end: end, uses: uses}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls[c] = struct{}{}
	return ctx, func() {
		b.mu.Lock()
		delete(b.calls, c)
		b.mu.Unlock()
		end(nil)
	}
}

// hangUp ends the calls under way.
func (b *broker) hangUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.calls {
		c.end(errDisconnected)
	}
}

// deny ends the calls that use a subject which the broker denies, and remembers why others get no answer.
func (b *broker) deny(subject string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.denied, b.deniedAt = err, time.Now()
	for c := range b.calls {
		if c.uses != nil && c.uses(subject) {
			c.end(notPermitted(subject, err))
		}
	}
}

// unanswered returns the error of a request, or what ended its context if the error is only that it ended.
func (b *broker) unanswered(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended == nil || !errors.Is(err, ended) {
		return err
	}
	cause := context.Cause(ctx)
	if !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return b.silence()
}

// silence returns why a request was not answered in time. A server that denies a request does not answer it.
func (b *broker) silence() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.denied != nil && time.Since(b.deniedAt) < 2*b.timeout {
		return b.denied
	}
	return fmt.Errorf("no answer within %v", b.timeout)
}

// info returns what the stream is now.
func (b *broker) info(ctx context.Context) (*jetstream.StreamInfo, error) {
	js, err := b.jetstream(b.conn.Load())
	if err != nil {
		return nil, err
	}
	ctx, cancel := b.request(ctx)
	defer cancel()
	st, err := js.Stream(ctx, b.stream)
	if err != nil {
		return nil, b.unanswered(ctx, err)
	}
	return st.CachedInfo(), nil
}

// last returns the last message of a subject, nil if there is none.
func (b *broker) last(ctx context.Context, subject string) (*sink.Stored, error) {
	return b.get(ctx, map[string]any{"last_by_subj": subject})
}

// get returns the message that which says, nil if there is none. It asks the stream's leader, never a replica: that
// may not have yet what the leader refused a message for.
func (b *broker) get(ctx context.Context, which map[string]any) (*sink.Stored, error) {
	ctx, cancel := b.request(ctx)
	defer cancel()
	m, err := natsclient.Get(ctx, b.conn.Load(), b.api(), b.stream, which)
	if err != nil || m == nil {
		return nil, b.unanswered(ctx, err)
	}
	var h gonats.Header
	if len(m.Header) > 0 {
		if h, err = gonats.DecodeHeadersMsg(m.Header); err != nil {
			return nil, err
		}
	}
	st := header.Decode(h, m.Data)
	st.Sequence, st.Time = m.Sequence, m.Time
	return &st, nil
}

// api is the prefix of JetStream's own subjects.
func (b *broker) api() string {
	if b.domain != "" {
		return "$JS." + b.domain + ".API"
	}
	return "$JS.API"
}

func notPermitted(subject string, err error) error {
	return sink.Permanent(fmt.Errorf("the broker does not permit this user to publish to %s: %w", subject, err))
}
