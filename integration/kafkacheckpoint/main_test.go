// SPDX-License-Identifier: Apache-2.0

// Package kafkacheckpoint holds tests of checkpoint/kafka on real Kafka, and on a fake of it that speaks its protocol.
package kafkacheckpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/storetest"
	"github.com/kube-eventbridge/kube-eventbridge/integration/kafkabroker"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Who comes to the first listener may do everything, who comes to the second only what he is allowed to.
var shared = kafkabroker.NewShared(kafkabroker.Config{
	Listeners: []kafkabroker.Listener{{}, {Protocol: kafkabroker.SASLPlaintext, Mechanisms: []string{kafkabroker.Plain}}},
	Users:     map[string]string{"bridge": "secret"}, Authorizer: true,
})

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }

var audit = storetest.Identity

// brokersKey is the environment variable that tells a child process of a test which brokers to use.
const brokersKey = "KUBE_EVENTBRIDGE_TEST_BROKERS"

// brokers returns the addresses of what start starts, or, in a child process, those that the parent uses.
func brokers(t *testing.T, start func() []string) []string {
	t.Helper()
	if given := os.Getenv(brokersKey); given != "" {
		return strings.Split(given, ",")
	}
	addresses := start()
	t.Setenv(brokersKey, strings.Join(addresses, ","))
	return addresses
}

// topicOf returns a topic's name for a directory.
func topicOf(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return "checkpoints-" + hex.EncodeToString(sum[:8])
}

func mustOpen(t testing.TB, cfg kafka.Config) *kafka.Store {
	t.Helper()
	s, err := kafka.Open(t.Context(), cfg, audit)
	require.NoError(t, err, "open")
	t.Cleanup(func() {
		assert.NoError(t, s.Close(), "close")
	})
	return s
}

// mustBe fails where a state is not the one that is wanted; neither knows of the log.
func mustBe(t testing.TB, got, want *checkpoint.State) {
	t.Helper()
	require.Equal(t, want.Identity, got.Identity, "the checkpoint holds")
	require.Equal(t, want.Streams, got.Streams, "the checkpoint holds")
	for _, pair := range [][2]*checkpoint.State{{got, want}, {want, got}} {
		for name, rows := range pair[0].Rows {
			for key, row := range rows {
				if other, ok := pair[1].Rows[name][key]; !ok || other != row {
					t.Fatalf("row %q of %q: %+v, want %+v", key, name, got.Rows[name][key], want.Rows[name][key])
				}
			}
		}
	}
}

// rows returns a batch that puts rows from a number on, each of which has its number and a version.
func rows(from, n, version int) *checkpoint.Batch {
	put := make(map[string]checkpoint.Row, n)
	for i := from; i < from+n; i++ {
		put[key(i)] = checkpoint.Row{
			UID: fmt.Sprintf("%08x-0c5b-4b8e-9a11-%012x", i*2654435761%(1<<32), i), ResourceVersion: fmt.Sprint(48_000_000 + version), Sequence: uint64(version),
		}
	}
	return &checkpoint.Batch{
		Identity: audit, Streams: map[string]checkpoint.Stream{"pods.v1": {Position: fmt.Sprint(version)}},
		Put: map[string]map[string]checkpoint.Row{"pods.v1": put}, Drop: map[string][]string{},
	}
}

func key(i int) string { return fmt.Sprintf("namespace-%d/deployment-5d78c9869d-%05x", i%100, i) }
