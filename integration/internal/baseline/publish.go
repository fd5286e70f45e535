// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/semaphore"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
)

const (
	// window is how many messages may be without an answer; the next one waits. It is what nats.go has as its default.
	window = 4000
	// ackTimeout is after how long a message counts as unanswered.
	ackTimeout = 5 * time.Second
	// A message that failed is tried again after firstWait, then twice as long, up to longestWait.
	firstWait, longestWait = 100 * time.Millisecond, 5 * time.Second
)

// publisher publishes without waiting for answers, and tries again what failed.
type publisher struct {
	js            jetstream.JetStream
	slots         *semaphore.Weighted
	work          sync.WaitGroup
	events, bytes atomic.Int64 // under way
}

func newPublisher(js jetstream.JetStream) *publisher {
	return &publisher{js: js, slots: semaphore.NewWeighted(window)}
}

// publish sends a message, and waits only while the window is full. If ctx ends before the answer, what becomes of the
// message is not known.
func (p *publisher) publish(ctx context.Context, m *nats.Msg) {
	if p.slots.Acquire(ctx, 1) != nil {
		return
	}
	size := int64(len(m.Data))
	p.events.Add(1)
	p.bytes.Add(size)
	answer, err := p.js.PublishMsgAsync(m)
	p.work.Go(func() {
		p.await(ctx, m, answer, err)
		p.bytes.Add(-size)
		p.events.Add(-1)
		p.slots.Release(1)
	})
}

// await returns when the broker has the message, and sends it again until then.
func (p *publisher) await(ctx context.Context, m *nats.Msg, answer jetstream.PubAckFuture, err error) {
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		if err == nil && acknowledged(ctx, answer) {
			return
		}
		if pause.For(ctx, wait) != nil {
			return
		}
		answer, err = p.js.PublishMsgAsync(m)
	}
}

// acknowledged waits for the answer to a message.
func acknowledged(ctx context.Context, answer jetstream.PubAckFuture) bool {
	select {
	case <-answer.Ok():
		return true
	case err := <-answer.Err():
		return err == nil
	case <-ctx.Done():
		return false
	}
}
