// SPDX-License-Identifier: Apache-2.0

package kafkasink

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// emptyBatches counts the batches of partition 0 that have no records any more.
func (r *testTopic) emptyBatches(t *testing.T) (n int) {
	t.Helper()
	client, done := r.admin()
	defer done()
	res, err := client.Fetch(t.Context(), &kafkago.FetchRequest{Topic: r.topic, MinBytes: 1, MaxBytes: 8 << 20, MaxWait: 100 * time.Millisecond})
	require.NoError(t, err)
	require.NoError(t, res.Error)
	stream, is := res.Records.(*protocol.RecordStream)
	if !is {
		return 0
	}
	for _, b := range stream.Records {
		if _, err := b.ReadRecord(); errors.Is(err, io.EOF) {
			n++
		}
	}
	return n
}

// A compacted partition keeps the last batch of each producer without its records. kafka-go's Reader panics there, and who takes an empty answer for the end never comes to it.
func TestSink_reads_a_compacted_partition_to_its_end(t *testing.T) {
	t.Parallel()
	r := newTopic(t, shared.ForTest(t), 1, map[string]string{
		"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": "100", "delete.retention.ms": "0",
	})
	const keys = 50
	for producer := range 5 {
		cfg := r.config(direct)
		cfg.Pipeline = fmt.Sprintf("%s-%d", r.topic, producer)
		s := start(t, cfg)
		var answers []<-chan answer
		for n := range 20 * keys {
			answers = append(answers, send(t, s, message(r.topic, fmt.Sprintf("key-%d", n%keys), producer*1000+n)))
		}
		for _, a := range answers {
			require.NoError(t, wait(t, a).err)
		}
		require.NoError(t, pause.For(t.Context(), 150*time.Millisecond)) // the next one begins a segment
		s.stop()
		require.NoError(t, s.end(t))
	}
	cfg := r.config(direct)
	s := start(t, cfg)
	for k := range keys {
		publish(t, s, message(r.topic, fmt.Sprintf("key-%d", k), 10_000))
	}
	rig.Try(t, "batches are empty", func() error {
		// A segment is closed by the next record after its time.
		publish(t, s, message(r.topic, "end", int(time.Now().UnixMilli())))
		require.NoError(t, pause.For(t.Context(), 300*time.Millisecond))
		if n := r.emptyBatches(t); n < 3 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	t.Logf("%d empty batches", r.emptyBatches(t))
	newest := map[string]string{}
	require.NoError(t, s.Read(t.Context(), sink.Query{LastOfKey: true}, func(st *sink.Stored) error {
		key, _, _ := strings.Cut(st.ID, ".")
		newest[key] = st.ID
		return nil
	}))
	for k := range keys {
		if key := fmt.Sprintf("key-%d", k); newest[key] != key+".10000" {
			t.Errorf("the last of %s is %s", key, newest[key])
		}
	}
	assert.NotEmpty(t, newest["end"], "it was not read to its end")
	// From each offset on, also from within what was removed.
	b := must.Get(s.Bounds(t.Context(), nil))(t)
	for after := uint64(0); after < b.Partitions[0].Last; after += 97 {
		last := uint64(0)
		require.NoError(t, s.Read(t.Context(), sink.Query{After: map[int32]uint64{0: after}}, func(st *sink.Stored) error {
			assert.Greater(t, st.Sequence, after, "after")
			last = st.Sequence
			return nil
		}))
		assert.GreaterOrEqual(t, last, b.Partitions[0].Last, "after %d it was read", after)
	}
}
