// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// Computed by Utils.murmur2 and Utils.toPositive of kafka-clients 4.3.1.
var javaPartitions = []struct {
	key           string
	hash          int32
	of12, ofSeven int32
}{
	{"", 275646681, 9, 2},
	{"a", -1563381124, 4, 5},
	{"ab", 316155434, 2, 0},
	{"abc", 479470107, 3, 4},
	{"abcd", -1323649548, 8, 5},
	{"abcde", 461995741, 1, 4},
	{"21", -973932308, 0, 3},
	{"foobar", -790332482, 6, 0},
	{"a-little-bit-long-string", -985981536, 8, 1},
	{"a-little-bit-longer-string", -1486304829, 11, 0},
	{"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971, 5, 3},
	{"kluster/core/pods/default/web-0", -843339386, 6, 1},
	{"kluster/apps/deployments/kube-system/coredns", -2098712806, 10, 1},
	{"kluster/core/nodes/_/node-1", -213058759, 1, 5},
	{"prod-eu/example.com/databases/größe/日本語", 1561408654, 10, 1},
	{"\x00\x01\x7f", -684883218, 2, 4},
	{"ÿþ", -1869419400, 8, 0},
}

func TestPartition_is_that_of_Java(t *testing.T) {
	for _, c := range javaPartitions {
		assert.Equal(t, c.hash, Murmur2(c.key), "Murmur2(%q)", c.key)
		assert.Equal(t, c.of12, Partition(c.key, 12), "Partition(%q, 12)", c.key)
		assert.Equal(t, c.ofSeven, Partition(c.key, 7), "Partition(%q, 7)", c.key)
	}
}

func TestPartition_is_that_of_other_clients(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SliceOf(rapid.Byte()).Draw(t, "key")
		partitions := make([]int, rapid.IntRange(1, 500).Draw(t, "partitions"))
		for i := range partitions {
			partitions[i] = i
		}
		want := kafka.Murmur2Balancer{Consistent: true}.Balance(kafka.Message{Key: key}, partitions...)
		if got := Partition(string(key), int32(len(partitions))); int(got) != want {
			t.Errorf("Partition(%q, %d) = %d, want %d", key, len(partitions), got, want)
		}
	})
}

func TestPartition_of_no_partitions_panics(t *testing.T) {
	defer func() {
		assert.NotNil(t, recover(), "it does not panic")
	}()
	Partition("key", 0)
}
