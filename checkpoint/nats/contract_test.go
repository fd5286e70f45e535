// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/storetest"
)

// serverKey is the environment variable that tells a child process of the test which server to use.
const serverKey = "KUBE_EVENTBRIDGE_TEST_NATS"

func TestStore_keeps_the_contract(t *testing.T) {
	url := os.Getenv(serverKey)
	if url == "" {
		url = newServer(t).ClientURL()
		t.Setenv(serverKey, url)
	}
	users, ctx := &storetest.Taking{}, t.Context()
	storetest.Run(t, func(place string, want checkpoint.Identity) (storetest.Store, error) {
		return users.Take(place, func() (storetest.Store, error) {
			cfg := at(url)
			sum := sha256.Sum256([]byte(filepath.Dir(place)))
			cfg.Name = hex.EncodeToString(sum[:8]) + "." + filepath.Base(place)
			return Open(ctx, cfg, want)
		})
	})
}
