// SPDX-License-Identifier: Apache-2.0

package kafkasink

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	internal "github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/sink/kafka"
)

func TestSink_says_how_to_create_a_topic_that_is_missing(t *testing.T) {
	t.Parallel()
	r := &testTopic{shared.ForTest(t), name(t)}
	var unusable *sink.UnusableError
	if err := launch(t, r.config(direct)).end(t); !errors.As(err, &unusable) {
		t.Fatalf("Run: %v", err)
	}
	command := "kafka-topics.sh --bootstrap-server " + r.AddressesOf(direct)[0] + " --create --topic " + r.topic + " --partitions 12 --replication-factor 1 --config min.insync.replicas=1,"
	assert.Contains(t, unusable.Advice, command, "it says %v", unusable)
}

func TestCreateTopic_says_how_many_replicas_there_can_be(t *testing.T) {
	t.Parallel()
	r := &testTopic{shared.ForTest(t), name(t)}
	client, err := internal.NewClient(internal.Config{Brokers: r.AddressesOf(direct)})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	err = client.CreateTopic(t.Context(), internal.TopicSpec{Name: r.topic, Replicas: 3})
	if err == nil || !strings.HasSuffix(err.Error(), "it was to have 3 replicas, and the number of brokers is 1: set replicas to at most that") {
		t.Errorf("it says %v", err)
	}
}

func TestSink_creates_a_topic_where_it_may(t *testing.T) {
	t.Parallel()
	r := &testTopic{shared.ForTest(t), name(t)}
	cfg := r.config(direct)
	cfg.Create = &kafka.Create{Partitions: 5, Replicas: 1, Settings: map[string]string{"cleanup.policy": "compact", "unclean.leader.election.enable": "true"}}
	cfg.Compression = batch.Zstd
	said := &lines{}
	cfg.Log = logger(said)
	s := start(t, cfg)
	publish(t, s, message(r.topic, "a", 1))
	b := must.Get(s.Bounds(t.Context(), nil))(t)
	assert.Len(t, b.Partitions, 5, "partitions")
	for _, want := range []string{
		"topic created", "unclean.leader.election.enable=true: a replica", "min.insync.replicas=1: a record", "cleanup.policy=compact: only the newest",
		"cleanup.policy=compact without tombstones",
	} {
		assert.Equal(t, 1, strings.Count(said.String(), want), "%q is not said once:\n%s", want, said)
	}
}

func TestSink_warns_of_partitions_that_come_later(t *testing.T) {
	t.Parallel()
	r := newTopic(t, shared.ForTest(t), 2, nil)
	cfg := r.config(direct)
	said := &lines{}
	cfg.Log = logger(said)
	s := start(t, cfg)
	before := publish(t, s, message(r.topic, "key", 1))
	client, done := r.admin()
	defer done()
	res, err := client.CreatePartitions(t.Context(), &kafkago.CreatePartitionsRequest{Topics: []kafkago.TopicPartitionsConfig{{Name: r.topic, Count: 9}}})
	require.NoError(t, err)
	require.NoError(t, res.Errors[r.topic])
	rig.Try(t, "it is said", func() error {
		if !strings.Contains(said.String(), "a topic has got more partitions") {
			return errors.New("not yet")
		}
		return nil
	})
	if after := publish(t, s, message(r.topic, "key", 2)); after.Partition != before.Partition || after.Sequence != before.Sequence+1 {
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
	if again := id(); again != before || before == "" {
		t.Errorf("the same topic is %q, then %q", before, again)
	}
	r.deleteTopic(t, r.topic)
	require.NoError(t, r.CreateTopic(t.Context(), r.topic, 1, 0, nil))
	if after := id(); after == before {
		t.Errorf("it is %q again", after)
	}
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
			if n == 3 && !strings.Contains(fmt.Sprint(got.err), "500002 bytes of data") {
				t.Errorf("%s: %v", c, got.err)
			}
		}
		if n := len(others(r.records(t, r.topic))); n != 30 {
			t.Errorf("%s: the log has %d records, want 30", c, n)
		}
		assert.NoError(t, s.Ready(), "%s", c)
	}
}

// The broker takes less than its settings said when the sink looked.
func TestSink_finds_out_what_a_topic_takes_that_was_changed(t *testing.T) {
	t.Parallel()
	r := newTopic(t, shared.ForTest(t), 1, nil)
	s := start(t, r.config(direct))
	client, done := r.admin()
	defer done()
	res, err := client.IncrementalAlterConfigs(t.Context(), &kafkago.IncrementalAlterConfigsRequest{Resources: []kafkago.IncrementalAlterConfigsRequestResource{{
		ResourceType: kafkago.ResourceTypeTopic, ResourceName: r.topic,
		Configs: []kafkago.IncrementalAlterConfigsRequestConfig{{Name: "max.message.bytes", Value: "20000", ConfigOperation: kafkago.ConfigOperationSet}},
	}}})
	require.NoError(t, err)
	require.NoError(t, res.Resources[0].Error)
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
	if n := len(others(r.records(t, r.topic))); n != 99 {
		t.Errorf("the log has %d records, want 99", n)
	}
}
