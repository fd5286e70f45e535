// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// taking keeps the contract's word that a second user is refused on open. Here he is not: he takes over, and the first one is refused; see
// TestStore_that_another_process_has_opened_cannot_commit.
type taking struct {
	mu   sync.Mutex
	open map[string]bool
}

type taken struct {
	*Store
	free func()
}

func (t taken) Close() error {
	t.free()
	return t.Store.Close()
}

func (o *taking) take(place string, open func() (*Store, error)) (storetest.Store, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open[place] {
		return nil, errors.New("it is open")
	}
	s, err := open()
	if err != nil {
		return nil, err
	}
	o.open[place] = true
	return taken{s, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.open, place)
	}}, nil
}

func TestStore_keeps_the_contract(t *testing.T) {
	users, ctx := &taking{open: map[string]bool{}}, t.Context()
	storetest.Run(t, func(place string, want checkpoint.Identity) (storetest.Store, error) {
		return users.take(place, func() (*Store, error) {
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
