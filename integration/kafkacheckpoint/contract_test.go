// SPDX-License-Identifier: Apache-2.0

package kafkacheckpoint

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/storetest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// keepsTheContract runs the suite on topics of their own, one for each directory; the checkpoints in it have their files' names.
func keepsTheContract(t *testing.T, addresses []string) {
	users, ctx := &storetest.Taking{}, t.Context()
	storetest.Run(t, func(place string, want checkpoint.Identity) (storetest.Store, error) {
		return users.Take(place, func() (storetest.Store, error) {
			return kafka.Open(ctx, kafka.Config{Brokers: addresses, Topic: topicOf(filepath.Dir(place)), Name: filepath.Base(place), Partitions: 3}, want)
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
	c := must.Get(kfake.NewCluster(kfake.NumBrokers(3)))(t)
	t.Cleanup(c.Close)
	return c
}

// Every now and then a request is appended without an answer, refused, or lost with its connection, the leader moves, or the log is compacted.
func TestStore_survives_what_brokers_do(t *testing.T) {
	t.Parallel()
	c := newFake(t)
	cfg := kafka.Config{Brokers: c.ListenAddrs(), Topic: "checkpoints", Partitions: 2}
	s, want := mustOpen(t, cfg), storetest.Empty()
	faults := []*kerr.Error{
		kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend, kerr.NotEnoughReplicas, kerr.LeaderNotAvailable, kerr.NotLeaderForPartition,
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
