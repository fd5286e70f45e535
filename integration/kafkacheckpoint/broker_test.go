// SPDX-License-Identifier: Apache-2.0

package kafkacheckpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/storetest"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/integration/kafkabroker"
	client "github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestStore_that_another_process_has_opened_cannot_commit(t *testing.T) {
	rig.Parallel(t, rig.All)
	cfg := kafka.Config{Brokers: shared.ForTest(t).Addresses(), Topic: "checkpoints-fence"}
	old := mustOpen(t, cfg)
	require.NoError(t, old.Commit(t.Context(), rows(0, 10, 1)))
	young := mustOpen(t, cfg)
	var taken *checkpoint.TakenError
	if err := old.Commit(t.Context(), rows(0, 10, 2)); !errors.As(err, &taken) || !checkpoint.IsPermanent(err) {
		t.Errorf("commit: error %v, want that another process uses it", err)
	}
	want := storetest.Empty()
	storetest.Apply(want, rows(0, 10, 1))
	mustBe(t, must.Get(young.Load(t.Context()))(t), want)
	require.NoError(t, young.Commit(t.Context(), rows(5, 10, 3)))
	storetest.Apply(want, rows(5, 10, 3))
	mustBe(t, must.Get(young.Load(t.Context()))(t), want)
}

func TestOpen_refuses_a_topic_that_deletes_and_names_what_mends_it(t *testing.T) {
	rig.Parallel(t, rig.All)
	c := shared.ForTest(t)
	require.NoError(t, c.CreateTopic(t.Context(), "checkpoints-delete", 1, 1,
		map[string]string{"cleanup.policy": "compact,delete"}))
	_, err := kafka.Open(t.Context(), kafka.Config{Brokers: c.Addresses(), Topic: "checkpoints-delete"}, audit)
	var settings *kafka.SettingsError
	require.True(t, errors.As(err, &settings), "error %v, want a SettingsError", err)
	words := strings.Fields(settings.Command)
	require.Equal(t, "kafka-configs.sh", words[0], "the command is %q", settings.Command)
	out, err := c.Tool(t.Context(), "kafka.admin.ConfigCommand", words[1:]...)
	require.NoError(t, err, "%s: %v\n%s", settings.Command, err, out)
	s := mustOpen(t, kafka.Config{Brokers: c.Addresses(), Topic: "checkpoints-delete"})
	require.NoError(t, s.Commit(t.Context(), rows(0, 1, 1)))
}

// The permission to write to the transactional id is easily forgotten, and the one to read the topic's settings.
func TestStore_without_the_permission_for_its_id_warns_and_works(t *testing.T) {
	rig.Parallel(t, rig.All)
	c := shared.ForTest(t)
	const topic = "checkpoints-permissions"
	require.NoError(t, c.CreateTopic(t.Context(), topic, 1, 1, map[string]string{"cleanup.policy": "compact"}))
	var log bytes.Buffer
	cfg := kafka.Config{
		Brokers: c.AddressesOf(string(kafkabroker.SASLPlaintext)), Topic: topic,
		Auth: kafka.Auth{Mechanism: kafkabroker.Plain, User: "bridge", Password: "secret"},
		Log:  slog.New(slog.NewTextHandler(&log, nil)),
	}
	allow := func(resource kafkago.ResourceType, name string, operations ...kafkago.ACLOperationType) {
		require.NoError(t, c.Allow(t.Context(), "bridge", resource, name, operations...))
	}
	allow(kafkago.ResourceTypeTopic, topic, kafkago.ACLOperationTypeRead, kafkago.ACLOperationTypeWrite)
	s, want := mustOpen(t, cfg), storetest.Empty()
	require.NoError(t, s.Commit(t.Context(), rows(0, 10, 1)))
	storetest.Apply(want, rows(0, 10, 1))
	mustBe(t, must.Get(mustOpen(t, cfg).Load(t.Context()))(t), want)
	const id = "kube-eventbridge.prod-eu-1.audit.checkpoint." + topic
	for _, text := range []string{"transactionalId=" + id, "(DescribeConfigs), so they are not checked"} {
		if n := strings.Count(log.String(), text); n != 2 { // two stores were opened
			t.Errorf("%d warnings have %q: %s", n, text, &log)
		}
	}

	log.Reset()
	allow(kafkago.ResourceTypeTopic, topic, kafkago.ACLOperationTypeDescribeConfigs)
	allow(kafkago.ResourceTypeTransactionalID, id, kafkago.ACLOperationTypeWrite)
	old := mustOpen(t, cfg)
	mustBe(t, must.Get(mustOpen(t, cfg).Load(t.Context()))(t), want)
	var taken *checkpoint.TakenError
	err := old.Commit(t.Context(), rows(0, 10, 2))
	assert.True(t, errors.As(err, &taken), "commit: error %v, want that another process uses it", err)
	assert.EqualValues(t, 0, log.Len(), "warnings: %s", &log)
}

func TestOpen_that_must_not_create_the_topic_says_how_to(t *testing.T) {
	rig.Parallel(t, rig.All)
	c := shared.ForTest(t)
	_, err := kafka.Open(t.Context(), kafka.Config{
		Brokers: c.AddressesOf(string(kafkabroker.SASLPlaintext)), Topic: "checkpoints-forbidden", Partitions: 1,
		Auth: kafka.Auth{Mechanism: kafkabroker.Plain, User: "bridge", Password: "secret"},
	}, audit)
	var settings *kafka.SettingsError
	require.True(t, errors.As(err, &settings), "error %v, want a SettingsError", err)
	words := strings.Fields(strings.Replace(settings.Command, c.AddressesOf(string(kafkabroker.SASLPlaintext))[0],
		c.Addresses()[0], 1))
	require.Equal(t, "kafka-topics.sh", words[0], "the command is %q", settings.Command)
	out, err := c.Tool(t.Context(), "org.apache.kafka.tools.TopicCommand", words[1:]...)
	require.NoError(t, err, "%s: %v\n%s", settings.Command, err, out)
	require.NoError(t, mustOpen(t, kafka.Config{
		Brokers: c.Addresses(),
		Topic:   "checkpoints-forbidden",
	}).Commit(t.Context(), rows(0, 1, 1)))
}

// Commits go on while the broker is killed and comes back; those that returned are there, and nothing else is.
func TestCommits_survive_kills_of_the_broker(t *testing.T) {
	rig.Parallel(t, rig.All)
	c := kafkabroker.ForTest(t, kafkabroker.Config{})
	cfg := kafka.Config{Brokers: c.Addresses(), Topic: "checkpoints", Partitions: 1}
	s, want := mustOpen(t, cfg), storetest.Empty()
	done := make(chan struct{})
	var g errgroup.Group
	var commits atomic.Int64
	g.Go(func() error {
		defer close(done)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		for range 3 {
			for enough := commits.Load() + 25; commits.Load() < enough; {
				if err := pause.For(ctx, 5*time.Millisecond); err != nil {
					return fmt.Errorf("wait for more commits: %w", err)
				}
			}
			if err := c.Kill(0); err != nil {
				return err
			}
			if err := c.Restart(t.Context(), 0); err != nil {
				return err
			}
		}
		return nil
	})
	failed := 0
	for n := 1; ; n++ {
		b := rows(n*31%2000, 200, n)
		if n%25 == 0 {
			b = rows(0, 20_000, n) // more than a batch
		}
		err := s.Commit(t.Context(), b)
		for ; err != nil; err = s.Commit(t.Context(), b) {
			require.False(t, checkpoint.IsPermanent(err), "commit %d", n)
			require.NoError(t, t.Context().Err(), "commit %d", n)
			failed++
		}
		storetest.Apply(want, b)
		commits.Add(1)
		select {
		case <-done:
			require.NoError(t, g.Wait())
			mustBe(t, must.Get(s.Load(t.Context()))(t), want)
			mustBe(t, must.Get(mustOpen(t, cfg).Load(t.Context()))(t), want)
			t.Logf("%d commits, %d attempts failed", commits.Load(), failed)
			return
		default:
		}
	}
}

// A broker's own compaction leaves one record for each row that there is, and none for others.
func TestCompaction_leaves_what_holds(t *testing.T) {
	rig.Parallel(t, rig.All)
	c := shared.ForTest(t)
	cfg := kafka.Config{Brokers: c.Addresses(), Topic: "checkpoints-compacted", Partitions: 1}
	s, want := mustOpen(t, cfg), storetest.Empty()
	c.AlterTopic(t, cfg.Topic, map[string]string{
		"segment.ms": "500", "min.cleanable.dirty.ratio": "0.001", "delete.retention.ms": "100", "min.compaction.lag.ms": "0",
		"max.compaction.lag.ms": "1000",
	})
	commit := func(b *checkpoint.Batch) {
		require.NoError(t, s.Commit(t.Context(), b))
		storetest.Apply(want, b)
	}
	for n := range 30 {
		commit(rows(n*40, 300, n))
	}
	commit(rows(0, 20_000, 100)) // by way of chunks
	drop := &checkpoint.Batch{Identity: audit, Drop: map[string][]string{}}
	for i := range 15_000 {
		drop.Drop["pods.v1"] = append(drop.Drop["pods.v1"], key(i))
	}
	commit(drop)
	other := rows(0, 3000, 7)
	other.Put["jobs.v1.batch"], other.Streams["jobs.v1.batch"] = other.Put["pods.v1"], other.Streams["pods.v1"]
	delete(other.Put, "pods.v1")
	delete(other.Streams, "pods.v1")
	commit(other)
	commit(&checkpoint.Batch{Identity: audit, Forget: []string{"jobs.v1.batch"}})
	require.NoError(t, s.Close())
	c.AlterTopic(t, cfg.Topic, map[string]string{"delete.retention.ms": "60000"}) // or it is refused
	// Its first commit removes the rows of what was forgotten.
	s = mustOpen(t, cfg)
	c.AlterTopic(t, cfg.Topic, map[string]string{"delete.retention.ms": "100"})

	// The segment that is written to is never compacted, and only a write begins another one.
	hold := len(want.Rows["pods.v1"]) + 4 // origin, barrier, head, stream
	deadline := time.Now().Add(2 * time.Minute)
	for n := 200; ; n++ {
		commit(&checkpoint.Batch{
			Identity: audit,
			Streams:  map[string]checkpoint.Stream{"pods.v1": {Position: fmt.Sprint(n)}},
		})
		there, nulls := records(t, cfg)
		// Of the last commits, and of the removed rows' last word, some are not compacted yet.
		if there >= hold && there+nulls <= hold+20 {
			t.Logf("%d records hold, %d are there, and %d nulls", hold, there, nulls)
			break
		}
		require.False(t, time.Now().After(deadline), "%d records and %d nulls are there, want %d", there, nulls, hold)
		require.NoError(t, pause.For(t.Context(), time.Second))
	}
	mustBe(t, must.Get(s.Load(t.Context()))(t), want)
	c.AlterTopic(t, cfg.Topic, map[string]string{"delete.retention.ms": "60000"}) // or it is refused
	mustBe(t, must.Get(mustOpen(t, cfg).Load(t.Context()))(t), want)
}

// records counts those of partition 0, those without a value apart.
func records(t testing.TB, cfg kafka.Config) (values, nulls int) {
	t.Helper()
	c := must.Get(client.NewClient(client.Config{Brokers: cfg.Brokers}))(t)
	defer c.Close()
	bounds, err := c.Bounds(t.Context(), cfg.Topic, 1)
	require.NoError(t, err)
	for at := bounds[0].First; at < bounds[0].Next; {
		at, _ = must.Get2(c.Fetch(t.Context(), cfg.Topic, 0, at, func(r *client.Record) error {
			if r.Value == nil {
				nulls++
			} else {
				values++
			}
			return nil
		}))(t)
	}
	return values, nulls
}
