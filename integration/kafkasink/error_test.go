// SPDX-License-Identifier: Apache-2.0

package kafkasink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testlog"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/sink/kafka"
)

const faked = "faked"

// fake is a broker that says what a test wants. It keeps the rules of sequences like a real one.
func fake(t *testing.T) (*kfake.Cluster, kafka.Config) {
	t.Helper()
	testtier.Servers(t)
	c := must.Get(kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, faked)))(t)
	t.Cleanup(c.Close)
	return c, kafka.Config{
		Brokers: c.ListenAddrs(), Cluster: "test", Pipeline: "p", Topic: faked,
		Timeout: 30 * time.Second, Wait: 10 * time.Millisecond, LookEvery: 200 * time.Millisecond,
	}
}

// answering has the next produce requests answered with errors, one after the other. nil is none.
func answering(c *kfake.Cluster, answers ...*kerr.Error) (asked *atomic.Int32) {
	asked = &atomic.Int32{}
	c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		n := int(asked.Add(1)) - 1
		if n >= len(answers) || answers[n] == nil {
			return nil, nil, false
		}
		r := req.(*kmsg.ProduceRequest)
		res := r.ResponseKind().(*kmsg.ProduceResponse)
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic = r.Topics[0].Topic
		partition := kmsg.NewProduceResponseTopicPartition()
		partition.Partition, partition.ErrorCode, partition.BaseOffset = r.Topics[0].Partitions[0].Partition, answers[n].Code,
			-1
		topic.Partitions = append(topic.Partitions, partition)
		res.Topics = append(res.Topics, topic)
		return res, nil, true
	})
	return asked
}

func TestSink_repeats_what_may_succeed(t *testing.T) {
	t.Parallel()
	for _, e := range []*kerr.Error{
		kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.RequestTimedOut, kerr.NotEnoughReplicas,
		kerr.NotEnoughReplicasAfterAppend, kerr.UnknownTopicOrPartition,
		kerr.TopicAuthorizationFailed, kerr.UnknownServerError, kerr.KafkaStorageError, kerr.CorruptMessage,
		kerr.ThrottlingQuotaExceeded,
	} {
		t.Run(e.Message, func(t *testing.T) {
			c, cfg := fake(t)
			var retries atomic.Int32
			cfg.OnRetry = func(string, int32, error) { retries.Add(1) }
			s := start(t, cfg)
			asked := answering(c, e, e, nil)
			if rc := publish(t, s, message(faked, "a", 1)); rc.Sequence != 2 || asked.Load() != 3 || retries.Load() != 2 {
				t.Errorf("it is at %+v after %d requests, %d of them again", rc, asked.Load(), retries.Load())
			}
			assert.NoError(t, s.Ready(), "then")
		})
	}
}

func TestSink_is_interrupted_where_a_broker_does_not_know_the_sequence(t *testing.T) {
	t.Parallel()
	for name, answers := range map[string][]*kerr.Error{
		"out of order":                       {kerr.OutOfOrderSequenceNumber},
		"unknown producer":                   {kerr.UnknownProducerID},
		"out of order after a doubt":         {kerr.RequestTimedOut, kerr.OutOfOrderSequenceNumber},
		"too large, and maybe there already": {kerr.RequestTimedOut, kerr.MessageTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			c, cfg := fake(t)
			s := start(t, cfg)
			publish(t, s, message(faked, "a", 1))
			answering(c, answers...)
			a := wait(t, send(t, s, message(faked, "a", 2)))
			assert.True(t, a.err != nil && !sink.IsPermanent(a.err), "published: %v", a.err)
			var interrupted *sink.InterruptedError
			if err := s.end(t); !errors.As(err, &interrupted) || !strings.Contains(interrupted.Target, faked+"/0") {
				t.Errorf("Run: %v", err)
			}
			again := start(t, cfg)
			publish(t, again, message(faked, "a", 2))
		})
	}
}

func TestSink_goes_on_after_what_a_broker_refuses_for_good(t *testing.T) {
	t.Parallel()
	for _, answers := range [][]*kerr.Error{
		{kerr.InvalidRecord},
		slices.Repeat([]*kerr.Error{kerr.InvalidTimestamp}, 1501),
	} {
		e := answers[0]
		c, cfg := fake(t)
		s := start(t, cfg)
		first := publish(t, s, message(faked, "a", 1))
		answering(c, answers...)
		if a := wait(t, send(t, s, message(faked, "b", 1))); !sink.IsPermanent(a.err) ||
			!strings.Contains(a.err.Error(), "publish b.1") {
			t.Errorf("%s: %v", e.Message, a.err)
		}
		answering(c)
		next := publish(t, s, message(faked, "c", 1))
		assert.Equal(t, first.Sequence+1, next.Sequence, "%s: the next one is at %+v", e.Message, next)
	}
}

// A clock that is ahead of the brokers' costs no event. They do not tell their time.
func TestSink_stamps_earlier_what_a_broker_refuses_for_its_time(t *testing.T) {
	t.Parallel()
	c, cfg := fake(t)
	said := &testlog.Text{}
	cfg.Log = said.Logger()
	s := start(t, cfg)
	first := publish(t, s, message(faked, "a", 1))
	sent := refusingAfter(c, time.Now().Add(-150*time.Minute))
	for n := range 3 {
		if next := publish(t, s, message(faked, "a", 2+n)); next.Sequence != first.Sequence+1+uint64(n) {
			t.Errorf("the next one is at %+v, the first at %+v", next, first)
		}
	}
	var moved []string
	for _, stamp := range sent() {
		moved = append(moved, time.Since(stamp).Round(time.Hour).String())
	}
	if got := fmt.Sprint(moved); got != "[0s 1h0m0s 3h0m0s 3h0m0s 3h0m0s]" { // the second begins where the first was taken
		t.Errorf("what was sent is older by %s", got)
	}
	n := strings.Count(said.String(), "the clock of this machine is ahead")
	assert.Equal(t, 1, n, "it is said %d times:\n%s", n, said)
}

// refusingAfter has batches refused that are stamped later, and tells the stamps of all that came.
func refusingAfter(c *kfake.Cluster, limit time.Time) (sent func() []time.Time) {
	var mu sync.Mutex
	var all []time.Time
	c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		r := req.(*kmsg.ProduceRequest)
		const atMaxTimestamp = 35
		stamp := time.UnixMilli(int64(binary.BigEndian.Uint64(r.Topics[0].Partitions[0].Records[atMaxTimestamp:])))
		mu.Lock()
		all = append(all, stamp)
		mu.Unlock()
		if !stamp.After(limit) {
			return nil, nil, false
		}
		res := r.ResponseKind().(*kmsg.ProduceResponse)
		topic, partition := kmsg.NewProduceResponseTopic(), kmsg.NewProduceResponseTopicPartition()
		topic.Topic, partition.Partition, partition.ErrorCode = r.Topics[0].Topic, r.Topics[0].Partitions[0].Partition,
			kerr.InvalidTimestamp.Code
		topic.Partitions = append(topic.Partitions, partition)
		res.Topics = append(res.Topics, topic)
		return res, nil, true
	})
	return func() []time.Time {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

func TestSink_takes_a_repetition_that_a_broker_says_it_has_for_success(t *testing.T) {
	t.Parallel()
	c, cfg := fake(t)
	s := start(t, cfg)
	answering(c, kerr.RequestTimedOut, kerr.DuplicateSequenceNumber)
	rc := publish(t, s, message(faked, "a", 1))
	assert.EqualValues(t, 0, rc.Sequence, "the receipt has the place %+v, which is unknown", rc)
}

// denyID has the brokers refuse transactional ids, as without the permission for them.
func denyID(c *kfake.Cluster) {
	c.ControlKey(int16(kmsg.InitProducerID), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r := req.(*kmsg.InitProducerIDRequest)
		if r.TransactionalID == nil || *r.TransactionalID == "" {
			r.TransactionalID = nil
			return nil, nil, false
		}
		c.KeepControl()
		res := r.ResponseKind().(*kmsg.InitProducerIDResponse)
		res.ErrorCode, res.ProducerID, res.ProducerEpoch = kerr.TransactionalIDAuthorizationFailed.Code, -1, -1
		return res, nil, true
	})
}

func TestSink_publishes_without_a_fence_where_it_may_not_have_one(t *testing.T) {
	t.Parallel()
	c, cfg := fake(t)
	said := &testlog.Text{}
	cfg.Log = said.Logger()
	denyID(c)
	s := start(t, cfg)
	publish(t, s, message(faked, "a", 1))
	if want := "an older process of this pipeline cannot be fenced"; !strings.Contains(said.String(), want) ||
		!strings.Contains(said.String(), "kube-eventbridge.test.p") {
		t.Errorf("it says\n%s", said)
	}
}

func TestSink_ends_without_a_fence_where_it_has_to_have_one(t *testing.T) {
	t.Parallel()
	c, cfg := fake(t)
	cfg.Fenced = true
	denyID(c)
	s := must.Get(kafka.New(cfg))(t)
	ctx := must.Within(t, time.Minute)
	var unusable *sink.UnusableError
	if err := s.Run(ctx); !errors.As(err, &unusable) ||
		!strings.Contains(err.Error(), "kube-eventbridge.test.p."+faked+" is missing") {
		t.Errorf("it ends with %v", err)
	}
}

// No barrier is written before that, so that nothing but a look at the topic tells.
func TestSink_notices_that_a_topic_is_deleted_while_it_is_opened(t *testing.T) {
	t.Parallel()
	c, cfg := fake(t)
	asked := answering(c, slices.Repeat([]*kerr.Error{kerr.UnknownTopicOrPartition}, 10_000)...)
	s := launch(t, cfg)
	must.Happen(t, "barriers to fail", func() bool { return asked.Load() > 2 })
	admin := must.Get(kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...)))(t)
	defer admin.Close()
	_ = must.Get(kadm.NewClient(admin).DeleteTopics(t.Context(), faked))(t)
	var lost *sink.RewoundError
	require.ErrorAs(t, s.end(t), &lost)
}

// Whoever waits for the end of Run may use the process's last breath for something else.
func TestSink_settles_everything_and_ends_soon_while_a_broker_hangs(t *testing.T) {
	t.Parallel()
	c, cfg := fake(t)
	cfg.Timeout = time.Minute
	s := start(t, cfg)
	hang := make(chan struct{})
	defer close(hang)
	asked := &atomic.Int32{}
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		asked.Add(1)
		c.SleepControl(func() { <-hang })
		return nil, nil, false
	})
	var answers []<-chan answer
	for n := range 100 {
		answers = append(answers, send(t, s, message(faked, fmt.Sprintf("key-%d", n), 1)))
	}
	rig.Try(t, "it is under way", func() error {
		if asked.Load() == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	began := time.Now()
	s.stop()
	require.NoError(t, s.end(t))
	for _, a := range answers {
		assert.Error(t, wait(t, a).err, "a message without an answer is said to be there")
	}
	assert.LessOrEqual(t, time.Since(began), cfg.Timeout/2, "it took")
}
