// SPDX-License-Identifier: Apache-2.0

package kafkasink

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
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
	internal "github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testlog"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/sink/kafka"
)

func TestSink_says_how_to_create_a_topic_that_is_missing(t *testing.T) {
	t.Parallel()
	r := &testTopic{shared.ForTest(t), name(t)}
	var unusable *sink.UnusableError
	err := launch(t, r.config(direct)).end(t)
	require.True(t, errors.As(err, &unusable), "Run: %v", err)
	command := "kafka-topics.sh --bootstrap-server " + r.AddressesOf(direct)[0] + " --create --topic " + r.topic +
		" --partitions 12 --replication-factor 1 --config min.insync.replicas=1,"
	assert.Contains(t, unusable.Advice, command, "it says %v", unusable)
}

func TestCreateTopic_says_how_many_replicas_there_can_be(t *testing.T) {
	t.Parallel()
	r := &testTopic{shared.ForTest(t), name(t)}
	client, err := internal.NewClient(internal.Config{Brokers: r.AddressesOf(direct)})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	err = client.CreateTopic(t.Context(), internal.TopicSpec{Name: r.topic, Replicas: 3})
	if err == nil ||
		!strings.HasSuffix(err.Error(),
			"it was to have 3 replicas, and the number of brokers is 1: set replicas to at most that") {
		t.Errorf("it says %v", err)
	}
}

func TestSink_creates_a_topic_where_it_may(t *testing.T) {
	t.Parallel()
	r := &testTopic{shared.ForTest(t), name(t)}
	cfg := r.config(direct)
	cfg.Create = &kafka.Create{
		Partitions: 5, Replicas: 1,
		Settings: map[string]string{"cleanup.policy": "compact", "unclean.leader.election.enable": "true"},
	}
	cfg.Compression = batch.Zstd
	said := &testlog.Text{}
	cfg.Log = said.Logger()
	s := start(t, cfg)
	publish(t, s, message(r.topic, "a", 1))
	b := must.Get(s.Bounds(t.Context(), nil))(t)
	assert.Len(t, b.Partitions, 5, "partitions")
	for _, want := range []string{
		"topic created", "unclean.leader.election.enable=true: a replica", "min.insync.replicas=1: a record",
		"cleanup.policy=compact: only the newest",
		"cleanup.policy=compact without tombstones",
	} {
		assert.Equal(t, 1, strings.Count(said.String(), want), "%q is not said once:\n%s", want, said)
	}
}

func TestSink_warns_of_partitions_that_come_later(t *testing.T) {
	t.Parallel()
	r := newTopic(t, shared.ForTest(t), 2, nil)
	cfg := r.config(direct)
	said := &testlog.Text{}
	cfg.Log = said.Logger()
	s := start(t, cfg)
	before := publish(t, s, message(r.topic, "key", 1))
	client, done := r.admin()
	defer done()
	res, err := client.CreatePartitions(t.Context(),
		&kafkago.CreatePartitionsRequest{Topics: []kafkago.TopicPartitionsConfig{{Name: r.topic, Count: 9}}})
	require.NoError(t, err)
	require.NoError(t, res.Errors[r.topic])
	rig.Try(t, "it is said", func() error {
		if !strings.Contains(said.String(), "a topic has got more partitions") {
			return errors.New("not yet")
		}
		return nil
	})
	if after := publish(t, s, message(r.topic, "key", 2)); after.Partition != before.Partition ||
		after.Sequence != before.Sequence+1 {
		t.Errorf("a key moved from %+v to %+v", before, after)
	}
}

func TestSink_calls_a_topic_that_was_made_anew_another_log(t *testing.T) {
	t.Parallel()
	r := newTopic(t, shared.ForTest(t), 1, nil)
	id := func() string {
		s := start(t, r.config(direct))
		b := must.Get(s.Bounds(t.Context(), nil))(t)
		s.stop()
		require.NoError(t, s.end(t))
		return b.ID
	}
	before := id()
	again := id()
	assert.True(t, again == before && before != "", "the same topic is %q, then %q", before, again)
	r.DeleteTopic(t, r.topic)
	require.NoError(t, r.CreateTopic(t.Context(), r.topic, 1, 0, nil))
	// The controller has made it. The broker may show the one before for a moment.
	rig.Try(t, "another log", func() error {
		if after := id(); after == before {
			return fmt.Errorf("it is %q again", after)
		}
		return nil
	})
}

// hard returns a JSON text that cannot be compressed to less than half of n bytes; soft one that can.
func hard(n int) []byte {
	b := make([]byte, n/2)
	_, _ = rand.Read(b)
	return []byte(`"` + hex.EncodeToString(b) + `"`)
}

func soft(n int) []byte { return []byte(`"` + strings.Repeat("kube", n/4) + `"`) }

func TestSink_compresses_what_is_too_large_and_refuses_what_is_too_large_then(t *testing.T) {
	t.Parallel()
	for _, c := range []batch.Compression{batch.None, batch.Lz4} {
		r := newTopic(t, shared.ForTest(t), 1, map[string]string{"max.message.bytes": "100000"})
		cfg := r.config(direct)
		cfg.Compression = c
		s := start(t, cfg)
		var answers []<-chan answer
		for n := range 40 {
			m := message(r.topic, fmt.Sprintf("key-%d", n), 1)
			switch n % 4 {
			case 1:
				m.Data = soft(3_000_000)
			case 3:
				m.Data = hard(500_000)
			}
			answers = append(answers, send(t, s, m))
		}
		for n, a := range answers {
			got := wait(t, a)
			if large := n%4 == 3; large != sink.IsPermanent(got.err) || !large && got.err != nil {
				t.Errorf("%s: message %d: %v", c, n, got.err)
			}
			assert.True(t, n != 3 || strings.Contains(fmt.Sprint(got.err), "500002 bytes of data"),
				"%s: %v", c, got.err)
		}
		n := len(others(r.records(t, r.topic)))
		assert.Equal(t, 30, n, "%s: the log has %d records, want 30", c, n)
		assert.NoError(t, s.Ready(), "%s", c)
	}
}

// The broker takes less than its settings said when the sink looked.
func TestSink_finds_out_what_a_topic_takes_that_was_changed(t *testing.T) {
	t.Parallel()
	r := newTopic(t, shared.ForTest(t), 1, nil)
	s := start(t, r.config(direct))
	shared.ForTest(t).AlterTopic(t, r.topic, map[string]string{"max.message.bytes": "20000"})
	var answers []<-chan answer
	for n := range 100 {
		m := message(r.topic, fmt.Sprintf("key-%d", n), 1)
		m.Data = hard(5000)
		if n == 50 {
			m.Data = hard(100_000)
		}
		answers = append(answers, send(t, s, m))
	}
	for n, a := range answers {
		if got := wait(t, a); n != 50 && got.err != nil || n == 50 && !sink.IsPermanent(got.err) {
			t.Errorf("message %d: %v", n, got.err)
		}
	}
	n := len(others(r.records(t, r.topic)))
	assert.Equal(t, 99, n, "the log has %d records, want 99", n)
}

// emptyBatches counts the batches of partition 0 that have no records any more.
func (r *testTopic) emptyBatches(t *testing.T) (n int) {
	t.Helper()
	client, done := r.admin()
	defer done()
	res, err := client.Fetch(t.Context(), &kafkago.FetchRequest{
		Topic: r.topic, MinBytes: 1, MaxBytes: 8 << 20,
		MaxWait: 100 * time.Millisecond,
	})
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

// A compacted partition keeps the last batch of each producer without its records. kafka-go's Reader panics there, and
// who takes an empty answer for the end never comes to it.
func TestSink_reads_a_compacted_partition_to_its_end(t *testing.T) {
	t.Parallel()
	r := newTopic(t, shared.ForTest(t), 1, map[string]string{
		"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": "100",
		"delete.retention.ms": "0",
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
		key := fmt.Sprintf("key-%d", k)
		assert.Equal(t, key+".10000", newest[key], "the last of %s", key)
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

// everywhere is the n-th marker of a resource.
func everywhere(topic string, n int) *sink.Message {
	m := message(topic, "test/core/pods/_/_snapshot", n)
	m.Attributes = append(m.Attributes, sink.Attribute{Name: "payload", Value: "marker"})
	m.Everywhere = true
	return m
}

// partitionOf returns which partition of a topic a request to publish is for.
func partitionOf(request []byte, topic string) int32 {
	_, behind, _ := bytes.Cut(request, []byte(topic)) // then come the number of partitions, and the first one
	return int32(binary.BigEndian.Uint32(behind[4:])) //nolint:gosec // it is an int32 on the wire
}

// Whichever partition a process did not come to: the next one learns nothing of the marker, and publishes it again.
func TestSink_shows_no_marker_that_a_crash_kept_from_a_partition(t *testing.T) {
	const partitions = 3
	for missed := range int32(partitions) {
		t.Run(fmt.Sprint(missed), func(t *testing.T) {
			r := newTopic(t, shared.ForTest(t), partitions, nil)
			p := proxiesOf(r.Cluster)[0]
			old := start(t, r.config(proxied))
			publish(t, old, everywhere(r.topic, 1))
			marker := everywhere(r.topic, 2)
			home := batch.Partition(marker.Key, partitions)
			p.hold(func(api int16, request []byte) bool {
				return api == apiProduce && partitionOf(request, r.topic) == missed
			})
			defer p.release()
			unsettled := send(t, old, marker)
			has := func() map[int32]int {
				found := map[int32]int{}
				for _, rec := range r.records(t, r.topic) {
					if rec.header("ce_id") == marker.ID {
						found[rec.partition]++
					}
				}
				return found
			}
			want := map[int32]int{0: 1, 1: 1, 2: 1}
			delete(want, missed)
			delete(want, home) // it is the last one in any case
			rig.Try(t, "the marker is where it can be", func() error {
				if got := has(); p.waiting.Load() == 0 || fmt.Sprint(got) != fmt.Sprint(want) {
					return fmt.Errorf("%d requests wait, and the marker is in %v, want %v", p.waiting.Load(), got, want)
				}
				return nil
			})
			old.stop()
			require.NoError(t, old.end(t))
			assert.Error(t, wait(t, unsettled).err, "it was acknowledged")
			newer := start(t, r.config(direct))
			p.release()
			read := func() (ids string) {
				require.NoError(t, newer.Read(t.Context(), sink.Query{}, func(st *sink.Stored) error {
					if !strings.HasPrefix(st.ID, "writer-started.") {
						ids += fmt.Sprintf("%s in %d ", st.ID, st.Partition)
					}
					return nil
				}))
				return ids
			}
			first := fmt.Sprintf("test/core/pods/_/_snapshot.1 in %d ", home)
			assert.Equal(t, first, read(), "the next process")
			publish(t, newer, marker)
			got, both := read(), first+fmt.Sprintf("%s in %d ", marker.ID, home)
			assert.Equal(t, both, got, "then")
			if got := has(); got[0]*got[1]*got[2] == 0 || got[home] != 1 {
				t.Errorf("the marker is in %v", got)
			}
		})
	}
}
