// SPDX-License-Identifier: Apache-2.0

package natslog

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
)

// beforeConsumer does something before the first consumer is made.
type beforeConsumer struct {
	jetstream.JetStream
	do func()
}

func (b beforeConsumer) CreateConsumer(
	ctx context.Context, stream string, cfg jetstream.ConsumerConfig,
) (jetstream.Consumer, error) {
	b.do()
	return b.JetStream.CreateConsumer(ctx, stream, cfg)
}

// BeforeConsumer calls do once, when a stream was opened and its consumer is not made yet.
func (l *Log) BeforeConsumer(do func()) { l.js = beforeConsumer{l.js, sync.OnceFunc(do)} }

// SetFarBehind says how many messages are too many to acknowledge.
func (l *Log) SetFarBehind(n uint64) { l.farBehind = n }
