// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/storetest"
)

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

// serverKey is the environment variable that tells a child process of the test which server to use.
const serverKey = "KUBE_EVENTBRIDGE_TEST_NATS"

func TestStore_keeps_the_contract(t *testing.T) {
	url := os.Getenv(serverKey)
	if url == "" {
		url = newServer(t).ClientURL()
		t.Setenv(serverKey, url)
	}
	users, ctx := &taking{open: map[string]bool{}}, t.Context()
	storetest.Run(t, func(place string, want checkpoint.Identity) (storetest.Store, error) {
		return users.take(place, func() (*Store, error) {
			cfg := at(url)
			sum := sha256.Sum256([]byte(filepath.Dir(place)))
			cfg.Name = hex.EncodeToString(sum[:8]) + "." + filepath.Base(place)
			return Open(ctx, cfg, want)
		})
	})
}
