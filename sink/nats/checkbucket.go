// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	gonats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// CheckBucket is [Check] for the bucket that [Sink.Keep] puts objects in. One that is missing is none of what is wrong,
// as the sink creates it when it needs it.
func CheckBucket(ctx context.Context, c Config) (warnings []string, err error) {
	nc, err := natsclient.Dial(c.Client, gonats.Timeout(connectTimeout), gonats.NoReconnect())
	if err != nil {
		return nil, refusal(fmt.Errorf("connect: %w", err))
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	bucket := Bucket(c.Stream)
	st, err := js.Stream(ctx, "OBJ_"+bucket)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("check of bucket %s: %w", bucket, err)
	}
	found := st.CachedInfo().Config
	for _, rule := range bucketRules {
		if rule.broken(bucket, found) {
			return nil, &sink.UnusableError{
				Target: "bucket " + bucket, Reason: rule.reason,
				Advice: "remove it, so that it is made as it has to be: nats object del " + bucket,
			}
		}
	}
	keeps, err := ageOf(ctx, js, c)
	return bucketCosts(bucket, found, keeps), err
}

var bucketRules = []struct {
	broken func(bucket string, c jetstream.StreamConfig) bool
	reason string
}{
	{func(_ string, c jetstream.StreamConfig) bool { return c.Sealed }, "it is sealed: nothing can be put into it"},
	{
		func(bucket string, c jetstream.StreamConfig) bool {
			return !slices.Contains(c.Subjects, "$O."+bucket+".C.>") || !slices.Contains(c.Subjects, "$O."+bucket+".M.>")
		},
		"its stream has other subjects than those of an object store",
	},
	{
		func(_ string, c jetstream.StreamConfig) bool { return !c.AllowRollup },
		"its stream allows no rollup, by which an object is replaced",
	},
}

// ageOf returns how old messages of the log may become, 0: any age; also where it is yet to be made.
func ageOf(ctx context.Context, js jetstream.JetStream, c Config) (time.Duration, error) {
	st, err := js.Stream(ctx, c.Stream)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return c.Limits.MaxAge, nil
	case err != nil:
		return 0, fmt.Errorf("check of stream %s: %w", c.Stream, err)
	}
	return st.CachedInfo().Config.MaxAge, nil
}

// bucketCosts says what a bucket's settings cost, beside a log that keeps events for a time.
func bucketCosts(bucket string, c jetstream.StreamConfig, keeps time.Duration) (warnings []string) {
	if c.Storage == jetstream.MemoryStorage {
		warnings = append(warnings, "bucket "+bucket+" is kept in memory: its objects end with the servers")
	}
	if c.MaxAge > 0 && (keeps == 0 || c.MaxAge < keeps) {
		of := "ever"
		if keeps > 0 {
			of = keeps.String()
		}
		warnings = append(warnings,
			fmt.Sprintf("bucket %s keeps objects for %v, and the stream events for %s: what older events refer to is gone",
				bucket, c.MaxAge, of))
	}
	if c.MaxBytes > 0 {
		warnings = append(warnings,
			fmt.Sprintf("bucket %s takes %d bytes: when it is full, what is too large for the stream waits", bucket, c.MaxBytes))
	}
	return warnings
}
