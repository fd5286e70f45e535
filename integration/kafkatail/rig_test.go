// SPDX-License-Identifier: Apache-2.0

package kafkatail

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/integration/kafkabroker"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event/kafkalog"
	internal "github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/tail"
	"github.com/kube-eventbridge/kube-eventbridge/internal/tail/tailtest"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/sink/kafka"
)

const (
	plain   = "PLAINTEXT"
	guarded = "SASL_SSL"
)

var shared = kafkabroker.NewShared(kafkabroker.Config{
	Listeners: []kafkabroker.Listener{{}, {Protocol: kafkabroker.SASLTLS}},
	Users:     map[string]string{"alice": "wonderland"},
})

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }

// testTopic is a topic of its own.
type testTopic struct {
	*kafkabroker.Cluster
	topic string
}

func newTopic(t *testing.T, c *kafkabroker.Cluster, partitions int, configs map[string]string) *testTopic {
	t.Helper()
	r := &testTopic{c, kafkabroker.UniqueTopic(t)}
	require.NoError(t, c.CreateTopic(t.Context(), r.topic, partitions, 0, configs))
	return r
}

// sink runs one that publishes to a topic until the test or stop ends it.
func (r *testTopic) sink(t *testing.T, topic string, change func(*kafka.Config)) (s *kafka.Sink, stop func()) {
	t.Helper()
	cfg := kafka.Config{
		Brokers: r.AddressesOf(plain), Cluster: "test", Pipeline: topic, Topic: topic,
		Wait: 10 * time.Millisecond,
	}
	if change != nil {
		change(&cfg)
	}
	s = must.Get(kafka.New(cfg))(t)
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() {
		assert.NoError(t, s.Run(ctx), "the sink ended")
	})
	stop = func() { cancel(); work.Wait() }
	t.Cleanup(stop)
	rig.Poll(t, "the sink is ready", func() (bool, string) { return s.Ready() == nil, "" })
	return s, stop
}

// change is an event of the object shop/<name>, with that number of replicas.
func change(topic string, op event.Op, name string, version, replicas int) *sink.Message {
	m := &sink.Message{
		Subject: topic, Key: "test/apps/deployments/shop/" + name, ID: fmt.Sprintf("u-%s.%d", name, version),
		ContentType: "application/json",
		Data: fmt.Appendf(nil, `{"kind":"Deployment","metadata":{"name":%q},"spec":{"replicas":%d,"note":"50%% \"of\" ä"}}`,
			name, replicas), Last: op == event.Deleted,
	}
	m.Attributes = attributes("io.kube-eventbridge.resource."+string(op)+".v1", m.ID, m.Key, "object")
	m.Attributes = append(m.Attributes, []sink.Attribute{
		{Name: "subject", Value: "shop/" + name},
		{Name: "namespace", Value: "shop"},
		{Name: "name", Value: name},
		{Name: "objectuid", Value: "u-" + name},
		{Name: "resourceversion", Value: strconv.Itoa(version)},
		{Name: "fieldmanager", Value: `50% "of" ä`},
	}...)
	return m
}

// marker is one of the resource, which is in every partition.
func marker(topic string, op event.Op, version int) *sink.Message {
	m := &sink.Message{
		Subject: topic, Key: "test/apps/deployments/_/_snapshot", ID: fmt.Sprintf("%s.0.%d", op, version),
		ContentType: "application/json",
		Data:        []byte(`{"namespace":"","labelSelector":"","fieldSelector":""}`), Everywhere: true,
	}
	m.Attributes = attributes("io.kube-eventbridge.stream."+string(op)+".v1", m.ID, m.Key, "marker")
	return m
}

func attributes(typ, id, key, payload string) []sink.Attribute {
	return []sink.Attribute{
		{Name: "specversion", Value: "1.0"},
		{Name: "id", Value: id},
		{Name: "type", Value: typ},
		{Name: "source", Value: "/clusters/test/apis/apps/v1/deployments"},
		{Name: "datacontenttype", Value: "application/json"},
		{Name: "partitionkey", Value: key},
		{Name: "payload", Value: payload},
		{Name: "pipeline", Value: "audit"},
	}
}

// must publishes, one after the other.
func publish(t testing.TB, p sink.Publisher, all ...*sink.Message) {
	t.Helper()
	for _, m := range all {
		done := make(chan error, 1)
		p.Publish(t.Context(), m, func(_ sink.Receipt, err error) { done <- err })
		require.NoError(t, <-done, "publish %s", m.ID)
	}
}

// screen is where a tail under test writes.
type screen struct{ tailtest.Screen }

// awaitNotice waits until the tail has said something.
func (s *screen) awaitNotice(t *testing.T, part string) {
	t.Helper()
	rig.Poll(t, "the notice "+part, func() (bool, string) { return strings.Contains(s.Said(), part), s.Said() })
}

// awaitEnd waits until the tail has ended.
func (s *screen) awaitEnd(t *testing.T) {
	t.Helper()
	rig.Poll(t, "the end of the log", func() (bool, string) {
		ended, _ := s.End()
		return ended, s.Said()
	})
}

// tail runs until the test ends it.
func (r *testTopic) tail(t *testing.T, cfg tail.Config, from kafkalog.Config) *screen {
	t.Helper()
	s := new(screen)
	from.Notice = s.Notice
	if from.Brokers == nil {
		from.Brokers = r.AddressesOf(plain)
	}
	if from.Topic == "" {
		from.Topic = r.topic
	}
	log := must.Get(kafkalog.New(from))(t)
	s.Tail(t, log, cfg, log.Close)
	return s
}

// read shows what the log has without following it.
func (r *testTopic) read(t *testing.T, span event.Span) *screen {
	t.Helper()
	s := r.tail(t, tail.Config{Span: span}, kafkalog.Config{})
	s.awaitEnd(t)
	require.NoError(t, must.Err(s.End()))
	return s
}

// follow begins a tail, and returns when it reads.
func (r *testTopic) follow(t *testing.T, start event.Start, from kafkalog.Config) *screen {
	t.Helper()
	s := r.tail(t, tail.Config{Span: event.Span{Follow: true, Start: start}}, from)
	s.awaitNotice(t, "; ^C ends it")
	return s
}

func (s *screen) expect(t *testing.T, want ...string) {
	t.Helper()
	text := strings.Join(want, "\n")
	defer func() {
		if t.Failed() {
			t.Logf("got\n%s\nwant\n%s\nit said\n%s", s.Text(), text, s.Said())
		}
	}()
	rig.Poll(t, "the lines", func() (bool, string) { return s.Text() == text, s.Text() })
}

// endsSaying waits for the end with an error that has a text in it, which is the only one that was told.
func (s *screen) endsSaying(t *testing.T, part string) {
	t.Helper()
	s.awaitEnd(t)
	if _, err := s.End(); err == nil || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v, want a line with %s", err, part)
	}
	assert.NotContains(t, s.Said(), "trying again")
}

func scram(password string) internal.Auth {
	return internal.Auth{Mechanism: internal.ScramSHA512, User: "alice", Password: password}
}

var beginning = event.Start{Beginning: true}
