// SPDX-License-Identifier: Apache-2.0

package natslog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
)

const (
	// ownMark is the metadata of durable consumers that this program has made.
	ownMark = "kube-eventbridge.io/progress"
	// fetchAtOnce is how many messages a request acknowledges, farBehind how many Acknowledge does.
	fetchAtOnce = 500
	farBehind   = 50_000
)

// Acknowledge implements [event.Progress]. The durable consumer is created if it is missing. One of the same name that
// another program has made is an error, and is left alone. So is a stream that removes what was acknowledged. After an
// error the next call does what is missing.
func (l *Log) Acknowledge(ctx context.Context, upTo event.Marks) error {
	position := upTo[0]
	if position == 0 {
		return nil
	}
	select {
	case l.acknowledging <- struct{}{}:
		defer func() { <-l.acknowledging }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := l.acknowledge(ctx, position); err != nil {
		return fmt.Errorf("move consumer %s of stream %s at %s: %w", l.cfg.Durable, l.cfg.Stream, l.servers(),
			answered(err))
	}
	return nil
}

func (l *Log) acknowledge(ctx context.Context, position uint64) error {
	asking, stop := context.WithTimeout(ctx, askFor)
	defer stop()
	stream, err := l.js.Stream(asking, l.cfg.Stream)
	if err != nil {
		return err
	}
	if r := stream.CachedInfo().Config.Retention; r != jetstream.LimitsPolicy {
		return fmt.Errorf("retention %s of the stream would remove what is acknowledged; only limits is supported", r)
	}
	if last := stream.CachedInfo().State.LastSeq; position > last {
		return fmt.Errorf("the stream ends at %d, before %d: it was replaced", last, position)
	}
	c, err := stream.Consumer(asking, l.cfg.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		_, err = stream.CreateConsumer(asking, l.durable(position))
		return err
	}
	if err != nil {
		return err
	}
	info := c.CachedInfo()
	if info.Config.Metadata[ownMark] == "" {
		return errors.New("another program has made it; name another consumer, or delete that one")
	}
	floor := info.AckFloor.Stream
	behind := min(info.NumPending+uint64(info.NumAckPending), position-min(position, floor)) //nolint:gosec // a count
	if behind > l.farBehind || !slices.Equal(filters(&info.Config), slices.Sorted(slices.Values(l.cfg.Subjects))) {
		if err := stream.DeleteConsumer(asking, l.cfg.Durable); err != nil {
			return err
		}
		_, err = stream.CreateConsumer(asking, l.durable(max(position, floor)))
		return err
	}
	for floor < position {
		moved, err := moveFloor(ctx, c, position, int(min(position-floor, fetchAtOnce)))
		if err != nil || moved <= floor {
			return err
		}
		floor = moved
	}
	return nil
}

// durable is the consumer, made behind a sequence.
func (l *Log) durable(sequence uint64) jetstream.ConsumerConfig {
	c := jetstream.ConsumerConfig{
		Durable: l.cfg.Durable, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: sequence + 1,
		AckPolicy: jetstream.AckAllPolicy, MaxAckPending: -1, HeadersOnly: true,
		Description: "how far a replica of kube-eventbridge has come; nothing is read from here",
		Metadata:    map[string]string{ownMark: "1"},
	}
	filter(&c, l.cfg.Subjects)
	return c
}

func filters(c *jetstream.ConsumerConfig) []string {
	all := slices.Clone(c.FilterSubjects)
	if c.FilterSubject != "" {
		all = append(all, c.FilterSubject)
	}
	slices.Sort(all)
	return all
}

// moveFloor acknowledges the next n messages as far as they are not behind a position, and returns the sequence of the
// last one; 0 if there is none. Acknowledging moves only by receiving.
func moveFloor(ctx context.Context, c jetstream.Consumer, position uint64, n int) (floor uint64, err error) {
	asking, stop := context.WithTimeout(ctx, askFor)
	defer stop()
	batch, err := c.FetchNoWait(n)
	if err != nil {
		return 0, err
	}
	var last jetstream.Msg
	var beyond []jetstream.Msg
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		switch {
		case err != nil:
			return 0, err
		case meta.Sequence.Stream > position:
			beyond = append(beyond, m)
		case meta.Sequence.Stream > floor:
			floor, last = meta.Sequence.Stream, m
		}
	}
	if err := batch.Error(); err != nil {
		return 0, err
	}
	for _, m := range beyond {
		// It is given again next time.
		if err := m.Nak(); err != nil {
			return 0, err
		}
	}
	if last == nil {
		return 0, nil
	}
	return floor, last.DoubleAck(asking)
}

// Behind implements [event.Progress].
func (l *Log) Behind(ctx context.Context, upTo event.Marks) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	stream, err := l.js.Stream(ctx, l.cfg.Stream)
	if err != nil {
		return 0, fmt.Errorf("ask for stream %s at %s: %w", l.cfg.Stream, l.servers(), answered(err))
	}
	state := stream.CachedInfo().State
	read := max(upTo[0], max(state.FirstSeq, 1)-1)
	return state.LastSeq - min(state.LastSeq, read), nil
}
