// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"iter"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/session"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
)

// writer is what a partition is written with.
type writer interface {
	InitProducer(ctx context.Context, transactionalID string, previous *kafka.Producer) (kafka.Producer, error)
	Produce(ctx context.Context, topic string, partition int32, sized []byte) (offset int64, err error)
}

// producer hands batches to one partition, one after the other. A batch that may be there already is handed over again
// with the same bytes and the same sequence, so that the broker recognises it, before anything else is.
type producer struct {
	broker    writer
	topic     string
	partition int32
	codec     *batch.Codec
	clock     kafka.Clock
	session   *session.Session
	// limit is the largest batch that is made.
	limit int

	id       kafka.Producer
	sequence int32

	// batch is what is handed over next, or is under way.
	batch batch.Builder
	// arrived is called when the batch that is under way is known to be in the log; it may be nil.
	arrived func()
	// pending: the batch is under way, and the broker may have it, or get it yet.
	pending bool
	// unanswered: a connection may still read the batch's bytes.
	unanswered bool
	// confused: the broker does not take the batch that is under way, so that only another id or epoch helps.
	confused bool
	// end is the offset after the last batch that is known to be in the log.
	end int64
}

func newProducer(cfg *Config, use *session.Session, to writer, partition int32, limit int) *producer {
	return &producer{
		broker: to, topic: cfg.Topic, partition: partition, codec: batch.NewCodec(cfg.Compression),
		session: use, limit: limit,
	}
}

const (
	// keptWhile is how large a batch's memory may be that is used again within a commit, keptAfter between commits.
	keptWhile = 2 << 20
	keptAfter = 256 << 10
)

// begin makes the batch empty.
func (p *producer) begin() { p.reset(keptWhile) }

func (p *producer) reset(keep int) {
	if p.unanswered {
		keep = 0
	}
	p.batch.Reset(keep)
	p.unanswered = false
}

// append adds a record to the batch, unless the batch would be larger than limit. A nil value is null.
func (p *producer) append(key string, value []byte, limit int) bool {
	return p.batch.Append(&batch.Record{Key: key, Value: value, Timestamp: p.clock.Now().UnixMilli()}, limit)
}

// send hands the batch over, calls arrived once it is in the log, and makes it empty.
func (p *producer) send(ctx context.Context, arrived func()) error {
	p.batch.Compress(p.codec)
	p.batch.Seal(p.id.ID, p.id.Epoch, p.sequence)
	p.pending, p.arrived = true, arrived
	err := p.deliver(ctx)
	if err == nil {
		p.session.Wrote = time.Now()
	}
	return err
}

// spread writes records in as many batches as it takes. The last one is not sent.
func (p *producer) spread(ctx context.Context, records iter.Seq2[string, []byte]) error {
	p.begin()
	for key, value := range records {
		if p.append(key, value, p.limit) {
			continue
		}
		if err := p.send(ctx, nil); err != nil {
			return err
		}
		p.append(key, value, p.limit)
	}
	return nil
}

// deliver goes on with the batch that is under way. The error is a [*checkpoint.TakenError] if the broker has
// fenced this process.
func (p *producer) deliver(ctx context.Context) error {
	offset, err := p.hand(ctx)
	for n := 1; kafka.Mistimed(err); n++ {
		stamp, ok := p.clock.Refused(time.UnixMilli(p.batch.Newest()), n)
		if !ok {
			break
		}
		p.batch.Restamp(stamp.UnixMilli())
		p.batch.Seal(p.id.ID, p.id.Epoch, p.sequence)
		offset, err = p.hand(ctx)
	}
	switch {
	case kafka.Repeated(err):
		// It is there. Where, the broker does not say.
	case err == nil:
		p.end = offset + int64(p.batch.Len())
	case kafka.Fenced(err):
		p.confused = false
		return p.session.Breaks(&checkpoint.TakenError{Path: p.session.Path, Err: err})
	default:
		p.confused = kafka.Confused(err) || kafka.TooLarge(err) || kafka.Malformed(err)
		return err
	}
	p.sequence = batch.NextSequence(p.sequence, p.batch.Len())
	p.pending = false
	if p.arrived != nil {
		p.arrived()
	}
	p.begin()
	return nil
}

// hand hands the batch over until there is an answer.
func (p *producer) hand(ctx context.Context) (offset int64, err error) {
	err = again(ctx, p.session.Patience, func() (err error) {
		offset, err = p.broker.Produce(ctx, p.topic, p.partition, p.batch.Addressed(p.partition))
		p.unanswered = p.unanswered || err != nil
		return err
	})
	return offset, err
}

// take makes id the producer's. A batch that is under way is forgotten.
func (p *producer) take(id kafka.Producer) {
	p.id, p.sequence = id, 0
	p.pending, p.confused = false, false
	p.begin()
}
