// SPDX-License-Identifier: Apache-2.0

package kafkabroker

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// shared has every kind of security.
var shared = NewShared(Config{
	Listeners: EveryListener(), Authorizer: true, Users: map[string]string{"alice": "wonderland", "bob": "builder"},
})

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }

// produce writes one record, acknowledged by all replicas, with one attempt.
func produce(ctx context.Context, cl *kafka.Client, topic, value string) error {
	res, err := cl.Produce(ctx, &kafka.ProduceRequest{
		Topic: topic, RequiredAcks: kafka.RequireAll,
		Records: kafka.NewRecordReader(kafka.Record{Value: kafka.NewBytes([]byte(value))}),
	})
	if err == nil {
		err = res.Error
	}
	return err
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestCluster_of_one_broker_keeps_ports_and_data_whatever_ends_it(t *testing.T) {
	t.Parallel()
	c := ForTest(t, Config{})
	addresses, pid := c.Addresses(), c.PID(0)
	first := must.Get(c.Admin().InitProducerID(t.Context(), &kafka.InitProducerIDRequest{
		TransactionalID: "first", TransactionTimeoutMs: 10_000, ProducerID: -1, ProducerEpoch: -1,
	}))(t)
	assert.NoError(t, first.Error, "a producer id right after the start, %+v", first)
	require.NoError(t, c.CreateTopic(t.Context(), "kept", 1, 0, map[string]string{"compression.type": "gzip"}))
	cl, done := client(c.nodes[0])
	defer done()
	require.NoError(t, produce(within(t, time.Minute), cl, "kept", "before"))

	require.NoError(t, c.Kill(0))
	assert.Equal(t, 0, c.PID(0), "a broker that was killed runs")
	require.NoError(t, c.Kill(0)) // twice is no error
	assert.Error(t, produce(within(t, 5*time.Second), cl, "kept", "never"), "a broker that was killed took a record")
	require.NoError(t, c.Restart(t.Context(), 0))
	require.Equal(t, addresses, c.Addresses(), "addresses")
	assert.NotEqual(t, pid, c.PID(0), "it is the same process")
	cl, done = client(c.nodes[0])
	defer done()
	require.NoError(t, produce(within(t, time.Minute), cl, "kept", "after"))

	require.NoError(t, c.Pause(0))
	assert.Error(t, produce(within(t, 500*time.Millisecond), cl, "kept", "late"),
		"a broker that is paused took a record")
	require.NoError(t, c.Resume(0))
	require.NoError(t, poll(within(t, time.Minute), "produce",
		func(ctx context.Context) error { return produce(ctx, cl, "kept", "resumed") }))

	require.NoError(t, c.Stop(within(t, time.Minute), 0))
	assert.Equal(t, 0, c.PID(0), "a broker that was stopped runs")
	assert.Error(t, c.Pause(0), "a broker that does not run was paused")
	require.NoError(t, c.Restart(t.Context(), 0))
	cl, done = client(c.nodes[0]) // the connections of others ended with the broker
	defer done()
	end := must.Get(cl.ListOffsets(t.Context(), &kafka.ListOffsetsRequest{
		Topics: map[string][]kafka.OffsetRequest{"kept": {kafka.LastOffsetOf(0)}},
	}))(t)
	all := strconv.FormatInt(end.Topics["kept"][0].LastOffset, 10) // three, or four with the one that came late
	read := must.Get(c.ConsoleConsumer(within(t, time.Minute), "kept", "--from-beginning", "--max-messages", all))(t)
	if got := strings.Fields(string(read)); !slices.Equal(slices.DeleteFunc(got,
		func(s string) bool { return s == "late" }), []string{"before", "after", "resumed"}) {
		t.Errorf("the console consumer read %q", got)
	}
}

func TestCluster_of_three_brokers_serves_a_partition_whose_leader_was_killed(t *testing.T) {
	t.Parallel()
	c := ForTest(t, Config{Brokers: 3})
	require.NoError(t, c.CreateTopic(t.Context(), "led", 1, 0, nil))
	ctx := within(t, time.Minute)
	dead := must.Get(c.Leader(ctx, "led", 0))(t)
	require.NoError(t, c.Kill(dead))
	try := func(ctx context.Context) error {
		cl, done := client(c.serving()...)
		defer done()
		return produce(ctx, cl, "led", "survives")
	}
	require.NoError(t, poll(ctx, "produce", try)) // all replicas acknowledge, so two at least
	leader := must.Get(c.Leader(ctx, "led", 0))(t)
	assert.NotEqual(t, dead, leader, "broker %d leads, which was killed", leader)
	require.NoError(t, c.Restart(t.Context(), dead))
	require.NoError(t, c.MoveLeader(t.Context(), "led", 0, dead))
	// Each broker learns by itself who leads.
	require.NoError(t, poll(within(t, time.Minute), "ask who leads", func(ctx context.Context) error {
		leader, err := c.Leader(ctx, "led", 0)
		if err == nil && leader != dead {
			err = fmt.Errorf("broker %d leads", leader)
		}
		return err
	}))
	require.NoError(t, poll(within(t, time.Minute), "produce", try))
}

func TestCluster_CreateTopic_says_what_is_wrong(t *testing.T) {
	t.Parallel()
	c := shared.ForTest(t)
	require.NoError(t, c.CreateTopic(t.Context(), "there", 3, 1, nil))
	for name, err := range map[string]error{
		"a topic that exists":     c.CreateTopic(t.Context(), "there", 3, 1, nil),
		"more replicas than ever": c.CreateTopic(t.Context(), "wide", 1, 2, nil),
		"an unknown setting":      c.CreateTopic(t.Context(), "odd", 1, 1, map[string]string{"colour": "red"}),
	} {
		assert.Error(t, err, "%s: no error", name)
	}
	res := must.Get(c.Admin().Metadata(within(t, time.Minute), &kafka.MetadataRequest{}))(t)
	var topics []string
	for _, topic := range res.Topics {
		topics = append(topics, topic.Name)
	}
	if !slices.Contains(topics, "there") || slices.ContainsFunc(topics,
		func(s string) bool { return strings.Contains(s, "ready") }) {
		t.Errorf("topics %q: want the one that was created, and none of the check", topics)
	}
}

func TestCluster_Tool_runs_what_Kafka_brings(t *testing.T) {
	t.Parallel()
	c := shared.ForTest(t)
	require.NoError(t, c.CreateTopic(t.Context(), "listed", 1, 0, nil))
	out, err := c.Tool(within(t, time.Minute), "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", c.Bootstrap(),
		"--list")
	require.NoError(t, err)
	assert.Contains(t, strings.Fields(string(out)), "listed", "listed %q", out)
	_, err = c.Tool(within(t, time.Minute), "kafka.None")
	assert.True(t, err != nil && strings.Contains(err.Error(), "ClassNotFoundException"), "no such tool: %v", err)
}

func TestCluster_advertises_what_it_is_told(t *testing.T) {
	t.Parallel()
	c := &Cluster{cfg: Config{Brokers: 2, Listeners: []Listener{{}, {
		Name: "PROXY", Advertise: func(broker int, address string) (string, error) {
			return fmt.Sprintf("proxy-%d:9092", broker), nil
		},
	}}}}
	require.NoError(t, c.cfg.complete())
	c.cfg.Dir = t.TempDir()
	require.NoError(t, c.prepare())
	require.NoError(t, c.choosePorts())
	assert.Equal(t, []string{"proxy-0:9092", "proxy-1:9092"}, c.AddressesOf("PROXY"), "addresses")
	written := string(c.nodes[1].properties())
	require.Contains(t, written, `PROXY\://proxy-1\:9092`, "not listening there and advertising this")
	assert.Contains(t, written, `PROXY\://127.0.0.1\:`, "not listening there and advertising this")
	ports := map[int]bool{}
	for _, n := range c.nodes {
		for _, p := range n.ports {
			ports[p] = true
		}
	}
	assert.Len(t, ports, 7, "different ports, want 2 x 3 and the controller's")
}

func TestConfig_refuses_what_cannot_be(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{
		"two listeners of one name": {Listeners: []Listener{{}, {}}},
		"the name of our own":       {Listeners: []Listener{{Name: internalListener}}},
		"a name in lower case":      {Listeners: []Listener{{Name: "mine"}}},
		"an unknown protocol":       {Listeners: []Listener{{Name: "X", Protocol: "QUIC"}}},
		"an unknown mechanism":      {Listeners: []Listener{{Protocol: SASLTLS, Mechanisms: []string{"GSSAPI"}}}},
		"mechanisms without SASL":   {Listeners: []Listener{{Protocol: TLS, Mechanisms: []string{Plain}}}},
		"certificates without TLS":  {Listeners: []Listener{{Protocol: SASLPlaintext, ClientCertificate: true}}},
		"a password with a quote":   {Users: map[string]string{"a": `"`}},
		"a name with a comma":       {Users: map[string]string{"a,b": "c"}},
	} {
		_, err := Start(t.Context(), cfg)
		assert.True(t, err != nil && strings.HasPrefix(err.Error(), "configure Kafka: "), "%s: %v", name, err)
	}
}

func TestStart_says_what_a_broker_does_not_like(t *testing.T) {
	t.Parallel()
	_ = shared.ForTest(t) // skips where there is no Kafka
	for property, value := range map[string]string{"log.segment.bytes": "many", "metric.reporters": "no.such.Reporter"} {
		dir := t.TempDir()
		c, err := Start(t.Context(), Config{Dir: dir, Properties: map[string]string{property: value}})
		if err == nil {
			require.NoError(t, c.Close())
		}
		assert.ErrorContains(t, err, value, property)
	}
}

func TestStart_takes_other_ports_if_one_is_taken(t *testing.T) {
	t.Parallel()
	var taken string
	var thief net.Listener
	c := ForTest(t, Config{Listeners: []Listener{{Advertise: func(_ int, address string) (_ string, err error) {
		if thief == nil {
			taken = address
			thief, err = net.Listen("tcp", address)
		}
		return address, err
	}}}})
	defer thief.Close()
	assert.NotEqual(t, taken, c.Addresses()[0], "the broker is said to listen on, where somebody else does")
	cl := &kafka.Client{Addr: kafka.TCP(c.Addresses()...), Transport: &kafka.Transport{}}
	defer cl.Transport.(*kafka.Transport).CloseIdleConnections()
	res := must.Get(cl.Metadata(within(t, time.Minute), &kafka.MetadataRequest{}))(t)
	assert.Len(t, res.Brokers, 1, "no broker answers there, %+v", res)
}

func TestCluster_closed_starts_nothing(t *testing.T) {
	t.Parallel()
	c := &Cluster{cfg: Config{Brokers: 1}, closed: make(chan struct{}), transport: &kafka.Transport{}}
	require.NoError(t, c.prepare())
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	assert.ErrorIs(t, must.Err(os.Stat(c.dir)), fs.ErrNotExist, "the temporary directory %s, want it removed", c.dir)
	for _, err := range []error{
		c.Restart(t.Context(), 0), c.Kill(0), c.Pause(0),
		c.CreateTopic(t.Context(), "x", 1, 1, nil), c.Kill(1),
	} {
		assert.Error(t, err, "no error")
	}
}
