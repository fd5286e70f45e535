// SPDX-License-Identifier: Apache-2.0

package kafkabroker

import (
	"context"
	"errors"
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
	"go.uber.org/goleak"
)

// shared has every kind of security.
var shared = NewShared(Config{
	Listeners: EveryListener(), Authorizer: true, Users: map[string]string{"alice": "wonderland", "bob": "builder"},
})

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }

// produce writes one record, acknowledged by all replicas, with one attempt.
func produce(ctx context.Context, cl *kafka.Client, topic, value string) error {
	res, err := cl.Produce(ctx, &kafka.ProduceRequest{
		Topic: topic, RequiredAcks: kafka.RequireAll, Records: kafka.NewRecordReader(kafka.Record{Value: kafka.NewBytes([]byte(value))}),
	})
	if err == nil {
		err = res.Error
	}
	return err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
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
	first, err := c.Admin().InitProducerID(t.Context(), &kafka.InitProducerIDRequest{
		TransactionalID: "first", TransactionTimeoutMs: 10_000, ProducerID: -1, ProducerEpoch: -1,
	})
	if err != nil || first.Error != nil {
		t.Errorf("a producer id right after the start: %v, %+v", err, first)
	}
	must(t, c.CreateTopic(t.Context(), "kept", 1, 0, map[string]string{"compression.type": "gzip"}))
	cl, done := client(c.nodes[0])
	defer done()
	must(t, produce(within(t, time.Minute), cl, "kept", "before"))

	must(t, c.Kill(0))
	if c.PID(0) != 0 {
		t.Error("a broker that was killed runs")
	}
	must(t, c.Kill(0)) // twice is no error
	if err := produce(within(t, 5*time.Second), cl, "kept", "never"); err == nil {
		t.Error("a broker that was killed took a record")
	}
	must(t, c.Restart(t.Context(), 0))
	if !slices.Equal(c.Addresses(), addresses) || c.PID(0) == pid {
		t.Errorf("addresses %v, process %d, want %v, another than %d", c.Addresses(), c.PID(0), addresses, pid)
	}
	cl, done = client(c.nodes[0])
	defer done()
	must(t, produce(within(t, time.Minute), cl, "kept", "after"))

	must(t, c.Pause(0))
	if err := produce(within(t, 500*time.Millisecond), cl, "kept", "late"); err == nil {
		t.Error("a broker that is paused took a record")
	}
	must(t, c.Resume(0))
	must(t, poll(within(t, time.Minute), "produce", func(ctx context.Context) error { return produce(ctx, cl, "kept", "resumed") }))

	must(t, c.Stop(within(t, time.Minute), 0))
	if c.PID(0) != 0 {
		t.Error("a broker that was stopped runs")
	}
	if err := c.Pause(0); err == nil {
		t.Error("a broker that does not run was paused")
	}
	must(t, c.Restart(t.Context(), 0))
	cl, done = client(c.nodes[0]) // the connections of others ended with the broker
	defer done()
	end, err := cl.ListOffsets(t.Context(), &kafka.ListOffsetsRequest{
		Topics: map[string][]kafka.OffsetRequest{"kept": {kafka.LastOffsetOf(0)}},
	})
	must(t, err)
	all := strconv.FormatInt(end.Topics["kept"][0].LastOffset, 10) // three, or four with the one that came late
	read, err := c.ConsoleConsumer(within(t, time.Minute), "kept", "--from-beginning", "--max-messages", all)
	must(t, err)
	if got := strings.Fields(string(read)); !slices.Equal(slices.DeleteFunc(got, func(s string) bool { return s == "late" }), []string{"before", "after", "resumed"}) {
		t.Errorf("the console consumer read %q", got)
	}
}

func TestCluster_of_three_brokers_serves_a_partition_whose_leader_was_killed(t *testing.T) {
	t.Parallel()
	c := ForTest(t, Config{Brokers: 3})
	must(t, c.CreateTopic(t.Context(), "led", 1, 0, nil))
	ctx := within(t, time.Minute)
	dead, err := c.Leader(ctx, "led", 0)
	must(t, err)
	must(t, c.Kill(dead))
	try := func(ctx context.Context) error {
		cl, done := client(c.serving()...)
		defer done()
		return produce(ctx, cl, "led", "survives")
	}
	must(t, poll(ctx, "produce", try)) // all replicas acknowledge, so two at least
	if leader, err := c.Leader(ctx, "led", 0); err != nil || leader == dead {
		t.Errorf("broker %d leads, which was killed, %v", leader, err)
	}
	must(t, c.Restart(t.Context(), dead))
	must(t, c.MoveLeader(t.Context(), "led", 0, dead))
	if leader, err := c.Leader(t.Context(), "led", 0); err != nil || leader != dead {
		t.Errorf("broker %d leads, %v, want %d", leader, err, dead)
	}
	must(t, poll(within(t, time.Minute), "produce", try))
}

func TestCluster_CreateTopic_says_what_is_wrong(t *testing.T) {
	t.Parallel()
	c := shared.ForTest(t)
	must(t, c.CreateTopic(t.Context(), "there", 3, 1, nil))
	for name, err := range map[string]error{
		"a topic that exists":     c.CreateTopic(t.Context(), "there", 3, 1, nil),
		"more replicas than ever": c.CreateTopic(t.Context(), "wide", 1, 2, nil),
		"an unknown setting":      c.CreateTopic(t.Context(), "odd", 1, 1, map[string]string{"colour": "red"}),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	res, err := c.Admin().Metadata(within(t, time.Minute), &kafka.MetadataRequest{})
	must(t, err)
	var topics []string
	for _, topic := range res.Topics {
		topics = append(topics, topic.Name)
	}
	if !slices.Contains(topics, "there") || slices.ContainsFunc(topics, func(s string) bool { return strings.Contains(s, "ready") }) {
		t.Errorf("topics %q: want the one that was created, and none of the check", topics)
	}
}

func TestCluster_Tool_runs_what_Kafka_brings(t *testing.T) {
	t.Parallel()
	c := shared.ForTest(t)
	must(t, c.CreateTopic(t.Context(), "listed", 1, 0, nil))
	out, err := c.Tool(within(t, time.Minute), "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", c.Bootstrap(), "--list")
	if err != nil || !slices.Contains(strings.Fields(string(out)), "listed") {
		t.Errorf("listed %q, %v", out, err)
	}
	if _, err := c.Tool(within(t, time.Minute), "kafka.None"); err == nil || !strings.Contains(err.Error(), "ClassNotFoundException") {
		t.Errorf("no such tool: %v", err)
	}
}

func TestCluster_advertises_what_it_is_told(t *testing.T) {
	t.Parallel()
	c := &Cluster{cfg: Config{Brokers: 2, Listeners: []Listener{{}, {
		Name: "PROXY", Advertise: func(broker int, address string) (string, error) {
			return fmt.Sprintf("proxy-%d:9092", broker), nil
		},
	}}}}
	must(t, c.cfg.complete())
	c.cfg.Dir = t.TempDir()
	must(t, c.prepare())
	must(t, c.choosePorts())
	if got := c.AddressesOf("PROXY"); !slices.Equal(got, []string{"proxy-0:9092", "proxy-1:9092"}) {
		t.Errorf("addresses %q", got)
	}
	written := string(c.nodes[1].properties())
	if !strings.Contains(written, `PROXY\://proxy-1\:9092`) || !strings.Contains(written, `PROXY\://127.0.0.1\:`) {
		t.Errorf("not listening there and advertising this:\n%s", written)
	}
	ports := map[int]bool{}
	for _, n := range c.nodes {
		for _, p := range n.ports {
			ports[p] = true
		}
	}
	if len(ports) != 7 {
		t.Errorf("%d different ports, want 2 x 3 and the controller's", len(ports))
	}
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
		if _, err := Start(t.Context(), cfg); err == nil || !strings.HasPrefix(err.Error(), "configure Kafka: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStart_says_what_a_broker_does_not_like(t *testing.T) {
	t.Parallel()
	_ = shared.ForTest(t) // skips where there is no Kafka
	for property, value := range map[string]string{"log.segment.bytes": "many", "metric.reporters": "no.such.Reporter"} {
		dir := t.TempDir()
		c, err := Start(t.Context(), Config{Dir: dir, Properties: map[string]string{property: value}})
		if err == nil {
			must(t, c.Close())
		}
		if err == nil || !strings.Contains(err.Error(), value) {
			t.Errorf("%s=%s: %v", property, value, err)
		}
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
	if c.Addresses()[0] == taken {
		t.Errorf("the broker is said to listen on %s, where somebody else does", taken)
	}
	cl := &kafka.Client{Addr: kafka.TCP(c.Addresses()...), Transport: &kafka.Transport{}}
	defer cl.Transport.(*kafka.Transport).CloseIdleConnections()
	res, err := cl.Metadata(within(t, time.Minute), &kafka.MetadataRequest{})
	if err != nil || len(res.Brokers) != 1 {
		t.Errorf("nobody answers there: %v, %+v", err, res)
	}
}

func TestCluster_closed_starts_nothing(t *testing.T) {
	t.Parallel()
	c := &Cluster{cfg: Config{Brokers: 1}, closed: make(chan struct{}), transport: &kafka.Transport{}}
	must(t, c.prepare())
	must(t, c.Close())
	must(t, c.Close())
	if _, err := os.Stat(c.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the temporary directory %s: %v, want it removed", c.dir, err)
	}
	for _, err := range []error{c.Restart(t.Context(), 0), c.Kill(0), c.Pause(0), c.CreateTopic(t.Context(), "x", 1, 1, nil), c.Kill(1)} {
		if err == nil {
			t.Error("no error")
		}
	}
}
