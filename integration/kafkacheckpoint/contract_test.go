// SPDX-License-Identifier: Apache-2.0

package kafkacheckpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/storetest"
	"github.com/kube-eventbridge/kube-eventbridge/integration/kafkabroker"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
)

// keepsTheContract runs the suite on topics of their own, one for each directory; the checkpoints in it have their
// files' names.
func keepsTheContract(t *testing.T, addresses []string) {
	users, ctx := &storetest.Taking{}, t.Context()
	storetest.Run(t, func(place string, want checkpoint.Identity) (storetest.Store, error) {
		return users.Take(place, func() (storetest.Store, error) {
			return kafka.Open(ctx, kafka.Config{
				Brokers: addresses, Topic: topicOf(filepath.Dir(place)),
				Name: filepath.Base(place), Partitions: 3,
			}, want)
		})
	})
}

func TestStore_keeps_the_contract_on_Kafka(t *testing.T) {
	keepsTheContract(t, brokers(t, func() []string { return shared.ForTest(t).Addresses() }))
}

func TestStore_keeps_the_contract_on_the_fake(t *testing.T) {
	keepsTheContract(t, brokers(t, func() []string { return newFake(t).ListenAddrs() }))
}

func newFake(t *testing.T) *kfake.Cluster {
	t.Helper()
	testtier.Servers(t)
	c := must.Get(kfake.NewCluster(kfake.NumBrokers(3)))(t)
	t.Cleanup(c.Close)
	return c
}

// Every now and then a request is appended without an answer, refused, or lost with its connection, the leader moves,
// or the log is compacted.
func TestStore_survives_what_brokers_do(t *testing.T) {
	t.Parallel()
	c := newFake(t)
	cfg := kafka.Config{Brokers: c.ListenAddrs(), Topic: "checkpoints", Partitions: 2}
	s, want := mustOpen(t, cfg), storetest.Empty()
	faults := []*kerr.Error{
		kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend, kerr.NotEnoughReplicas, kerr.LeaderNotAvailable,
		kerr.NotLeaderForPartition,
		kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID, kerr.KafkaStorageError,
	}
	for n := range 120 {
		switch n % 10 {
		case 0, 2, 4, 6, 8:
			c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: faults[n/2%len(faults)]})
		case 3:
			c.ShufflePartitionLeaders()
		case 5:
			lost := false
			c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
				if lost {
					return nil, nil, false
				}
				lost = true
				return nil, kerr.RequestTimedOut, true // an error closes the connection
			})
		case 7:
			c.Compact()
		}
		b := rows(n*7%400, 50, n)
		if n%40 == 20 {
			b = rows(0, 20_000, n)
		}
		if n%50 == 30 {
			b.Forget = []string{"pods.v1"}
		}
		require.NoError(t, s.Commit(t.Context(), b))
		storetest.Apply(want, b)
		if n%15 == 14 {
			mustBe(t, must.Get(s.Load(t.Context()))(t), want)
			s = mustOpen(t, cfg)
		}
	}
	mustBe(t, must.Get(mustOpen(t, cfg).Load(t.Context()))(t), want)
}

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
			UID:             fmt.Sprintf("%08x-0c5b-4b8e-9a11-%012x", i*2654435761%(1<<32), i),
			ResourceVersion: fmt.Sprint(48_000_000 + version), Epoch: 1_764_000_000, Version: uint64(48_000_000 + version),
			Sequence: uint64(version),
		}
	}
	return &checkpoint.Batch{
		Identity: audit, Streams: map[string]checkpoint.Stream{"pods.v1": {Position: fmt.Sprint(version)}},
		Put: map[string]map[string]checkpoint.Row{"pods.v1": put}, Drop: map[string][]string{},
	}
}

func key(i int) string { return fmt.Sprintf("namespace-%d/deployment-5d78c9869d-%05x", i%100, i) }
