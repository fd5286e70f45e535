// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore_keeps_the_contract(t *testing.T) {
	users, ctx := &storetest.Taking{}, t.Context()
	storetest.Run(t, func(place string, want checkpoint.Identity) (storetest.Store, error) {
		return users.Take(place, func() (storetest.Store, error) {
			f, err := reopenFake(place)
			if err != nil {
				return nil, err
			}
			return openFake(ctx, f, Config{Name: "n"}, want)
		})
	})
}

// openFake opens a checkpoint in the fake's topic.
func openFake(ctx context.Context, f *fake, cfg Config, want checkpoint.Identity) (*Store, error) {
	cfg.Brokers, cfg.Topic = []string{"b:9092"}, "checkpoints"
	return open(ctx, cfg.withDefaults(want), want, f)
}
