// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
)

const (
	// pullBytes is how much is asked for at a time.
	pullBytes = 4 << 20
	// forgetAfter is how long the server keeps a consumer that is not asked.
	forgetAfter = 30 * time.Second
)

// read calls do with the checkpoint's messages behind a sequence, up to another one, which is there.
func (b *bucket) read(ctx context.Context, after, to uint64, do func(raw)) (err error) {
	var consumer jetstream.Consumer
	err = b.ask(ctx, func(ctx context.Context) (err error) {
		consumer, err = b.js.OrderedConsumer(ctx, b.cfg.stream(), jetstream.OrderedConsumerConfig{
			FilterSubjects: []string{b.cfg.prefix() + ">"}, DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
			OptStartSeq:       after + 1,
			InactiveThreshold: forgetAfter, MaxResetAttempts: 1,
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("make a consumer: %w", err)
	}
	messages, err := consumer.Messages(jetstream.PullMaxBytes(max(pullBytes, 2*b.most())),
		jetstream.PullExpiry(max(b.cfg.Timeout/2, time.Second)))
	if err != nil {
		return fmt.Errorf("ask the consumer: %w", err)
	}
	defer messages.Stop()
	for after < to {
		err := b.ask(ctx, func(ctx context.Context) error {
			m, err := messages.Next(jetstream.NextContext(ctx))
			if err != nil {
				return err
			}
			meta, err := m.Metadata()
			if err != nil {
				return err
			}
			after = meta.Sequence.Stream
			do(raw{after, meta.Timestamp, m.Data()})
			return nil
		})
		if err != nil {
			return fmt.Errorf("read messages up to %d, behind %d: %w", to, after, err)
		}
	}
	return nil
}

// find makes sure that there is a bucket in which checkpoints can be kept, and returns the largest message that it
// takes. One that is missing is created.
func (b *bucket) find(ctx context.Context) (limit int, err error) {
	limit, err = b.check(ctx)
	if !errors.Is(err, errNoBucket) {
		return limit, err
	}
	err = b.ask(ctx, func(ctx context.Context) error {
		_, err := b.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: b.cfg.Bucket, Description: "Checkpoints of kube-eventbridge", History: 1, Storage: jetstream.FileStorage,
			Replicas: b.cfg.Replicas,
		})
		return err
	})
	var api *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrBucketExists):
	case errors.As(err, &api) && natsclient.Hopeless(api):
		return 0, &SettingsError{
			Bucket:  b.cfg.Bucket,
			Problem: fmt.Sprintf("it is missing, and the server refuses to create it (%v)", err), Advice: fmt.Sprintf(
				"ask for as many replicas as there are servers, or make it by hand: nats kv add %s --history 1 --storage file "+
					"--replicas %d", b.cfg.Bucket, b.cfg.Replicas),
		}
	case err != nil:
		return 0, fmt.Errorf("create the bucket: %w", err)
	default:
		b.cfg.Log.Info("bucket for checkpoints created", "bucket", b.cfg.Bucket)
	}
	return b.check(ctx)
}

// check returns the largest message that the bucket takes, or why checkpoints must not be kept in it. It changes
// nothing.
func (b *bucket) check(ctx context.Context) (limit int, err error) {
	var stream jetstream.Stream
	err = b.ask(ctx, func(ctx context.Context) (err error) {
		stream, err = b.js.Stream(ctx, b.cfg.stream())
		return err
	})
	if err != nil {
		return 0, err
	}
	c := stream.CachedInfo().Config
	if err := errors.Join(unfit(b.cfg.Bucket, &c), old(b.cfg.Bucket, b.nc.ConnectedServerVersion())); err != nil {
		return 0, err
	}
	limit = b.most()
	if c.MaxMsgSize > 0 {
		limit = min(limit, int(c.MaxMsgSize))
	}
	return limit, nil
}
