// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats/bucket"
)

// CheckBucket is [Check] for the bucket that [Sink.Keep] puts objects in. One that is missing is not wrong,
// as the sink creates it when it needs it.
func CheckBucket(ctx context.Context, c Config) (warnings []string, err error) {
	ctx, js, end, err := ask(ctx, c)
	if err != nil {
		return nil, err
	}
	defer end()
	name := bucket.Name(c.Stream)
	st, err := js.Stream(ctx, bucket.Stream(name))
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("check of bucket %s: %w", name, denied(ctx, err))
	}
	found := st.CachedInfo().Config
	if reason := bucket.Broken(name, found); reason != "" {
		return nil, &sink.UnusableError{
			Target: "bucket " + name, Reason: reason,
			Advice: "remove it, so that it is made as it has to be: nats object del " + name,
		}
	}
	keeps, err := ageOf(ctx, js, c)
	return bucket.Costs(name, found, keeps), err
}

// ageOf returns how old messages of the log may become, 0: any age; also where it is yet to be made.
func ageOf(ctx context.Context, js jetstream.JetStream, c Config) (time.Duration, error) {
	st, err := js.Stream(ctx, c.Stream)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return c.Limits.MaxAge, nil
	case err != nil:
		return 0, fmt.Errorf("check of stream %s: %w", c.Stream, denied(ctx, err))
	}
	return st.CachedInfo().Config.MaxAge, nil
}
