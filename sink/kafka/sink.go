// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

var _ sink.Sink = (*Sink)(nil)

// Sink publishes to the topics of one Kafka cluster. What it has taken over it sends until the broker has answered for
// good, or Run ends.
type Sink struct {
	cfg    Config
	client *kafka.Client
	admin  admin
	writer writer
	topics *topics
	health *health
	names  names
	// codec compresses every batch, smaller those that are too large; codec may be nil.
	codec, smaller *batch.Codec
	window         *window
	loads          depot
	// misled says that it was told that the machine's clock is ahead.
	misled atomic.Bool

	started atomic.Bool
	// up is closed when all topics that are known at the beginning are open, over when Run has ended.
	up, over chan struct{}
}

// New checks c and returns a sink that does nothing until Run.
func New(c Config) (*Sink, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	topics, err := newTopics(&c)
	if err != nil {
		return nil, err
	}
	k := kafka.Config{Brokers: c.Brokers, ClientID: c.ClientID, Auth: c.Auth, TLS: c.TLS, Timeout: c.Timeout}
	if topics.only != "" {
		k.Topics = []string{topics.only}
	}
	client, err := kafka.NewClient(k)
	if err != nil {
		return nil, err
	}
	s := &Sink{
		cfg: c, client: client, topics: topics, health: newHealth(c.Log), names: names{known: map[string]string{}},
		codec: batch.NewCodec(c.Compression), smaller: batch.NewCodec(batch.Gzip), window: newWindow(c.Window, c.WindowBytes),
		loads: make(depot, keepLoads), up: make(chan struct{}), over: make(chan struct{}),
	}
	s.admin = admin{cfg: &s.cfg, client: client}
	s.writer = writer{cfg: &s.cfg, client: client}
	return s, nil
}

// Publish implements [sink.Publisher]. It waits while the window is full, or the topic is not open yet. done is told an
// error only when ctx or Run ends, or, a permanent one, when the topic takes no message of this size. Nothing is
// verified: what other processes could have published is refused by the brokers.
func (s *Sink) Publish(ctx context.Context, m *sink.Message, done sink.Done) {
	size := int64(len(m.Data))
	if err := s.window.acquire(ctx, s.over, size); err != nil {
		done(sink.Receipt{}, err)
		return
	}
	settled := func(r sink.Receipt, err error) {
		s.window.release(size)
		done(r, err)
	}
	t, err := s.topic(ctx, m.Subject)
	switch {
	case err != nil:
		settled(sink.Receipt{}, err)
	case m.Everywhere:
		t.everywhere(m, settled)
	default:
		t.home(m.Key).take(m, settled)
	}
}

// everywhere publishes a message to each partition, to that of its key when all others have it: whoever finds it there
// knows that it is everywhere. The receipt is that partition's.
func (t *topic) everywhere(m *sink.Message, done sink.Done) {
	home := t.home(m.Key)
	others := int32(len(t.partitions)) - 1 //nolint:gosec // at most some thousands
	if others == 0 {
		home.take(m, done)
		return
	}
	var left atomic.Int32
	left.Store(others)
	var mu sync.Mutex
	var failed error
	for _, p := range t.partitions {
		if p == home {
			continue
		}
		p.take(m, func(_ sink.Receipt, err error) {
			mu.Lock()
			failed = errors.Join(failed, err)
			mu.Unlock()
			switch {
			case left.Add(-1) > 0:
			case failed != nil:
				done(sink.Receipt{}, failed)
			default:
				home.take(m, done)
			}
		})
	}
}

// home is the partition of a key.
func (t *topic) home(key string) *partition {
	return t.partitions[batch.Partition(key, int32(len(t.partitions)))] //nolint:gosec // at most some thousands
}

// topic returns an open topic, and asks for one that is not open.
func (s *Sink) topic(ctx context.Context, name string) (*topic, error) {
	if !s.started.Load() {
		return nil, sink.ErrNotRunning
	}
	t, err := s.topics.want(name)
	if err != nil {
		return nil, err
	}
	select {
	case <-t.open:
		return t, nil
	default:
	}
	select {
	case <-t.open:
		return t, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.over:
		return nil, sink.ErrNotRunning
	}
}

// Ready implements [sink.Sink].
func (s *Sink) Ready() error { return s.health.err() }
