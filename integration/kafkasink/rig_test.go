// SPDX-License-Identifier: Apache-2.0

package kafkasink

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/proxy"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/integration/kafkabroker"
	internal "github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/sink/kafka"
)

const (
	direct  = "PLAINTEXT"
	proxied = "PROXIED"
)

// proxies are before brokers, by what they forward to. They end after the tests.
var proxies struct {
	sync.Mutex
	all []*brokerProxy
}

func advertise(_ int, address string) (string, error) {
	p, err := newProxy(address)
	if err != nil {
		return "", err
	}
	proxies.Lock()
	defer proxies.Unlock()
	proxies.all = append(proxies.all, p)
	return p.Address(), nil
}

func listeners() []kafkabroker.Listener {
	return []kafkabroker.Listener{{}, {Name: proxied, Advertise: advertise}}
}

// purgeKept is how soon a broker keeps in mind what it was told to delete.
const purgeKept = 200 * time.Millisecond

// shared is one broker. Its directory is known, so that its store can be copied.
var (
	sharedDir = filepath.Join(os.TempDir(), fmt.Sprintf("kube-eventbridge-kafkasink-%d", os.Getpid()))
	shared    = kafkabroker.NewShared(kafkabroker.Config{
		Dir: sharedDir, Listeners: listeners(),
		// A broker that is killed forgets what DeleteRecords did since.
		Properties: map[string]string{"log.flush.start.offset.checkpoint.interval.ms": strconv.Itoa(int(purgeKept.Milliseconds()))},
	})
)

// cleaner closes the proxies, and removes what the shared broker left.
type cleaner struct{ kafkabroker.Runner }

func (c cleaner) Run() int {
	code := c.Runner.Run()
	for _, p := range proxies.all {
		_ = p.close() // its listener was closed before, or is now
	}
	_ = os.RemoveAll(sharedDir)
	return code
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(cleaner{fast.Around(shared.Around(m))}) }

// proxiesOf returns the proxies before a cluster's brokers, by number.
func proxiesOf(c *kafkabroker.Cluster) (found []*brokerProxy) {
	proxies.Lock()
	defer proxies.Unlock()
	for _, address := range c.AddressesOf(proxied) {
		for _, p := range proxies.all {
			if p.Address() == address {
				found = append(found, p)
			}
		}
	}
	return found
}

// testTopic is a topic of its own.
type testTopic struct {
	*kafkabroker.Cluster
	topic string
}

// name returns a topic's name that no other test has. A test that calls it is not core.
func name(t *testing.T) string {
	t.Helper()
	rig.Tier(t, rig.All)
	return kafkabroker.UniqueTopic(t)
}

func newTopic(t *testing.T, c *kafkabroker.Cluster, partitions int, configs map[string]string) *testTopic {
	t.Helper()
	r := &testTopic{c, name(t)}
	require.NoError(t, c.CreateTopic(t.Context(), r.topic, partitions, 0, configs))
	return r
}

// config is that of a sink on a listener.
func (r *testTopic) config(listener string) kafka.Config {
	return kafka.Config{
		Brokers: r.AddressesOf(listener), Cluster: "test", Pipeline: r.topic, Topic: r.topic, Timeout: 5 * time.Second,
		Wait: 10 * time.Millisecond, LookEvery: 500 * time.Millisecond,
	}
}

func newSink(t testing.TB, cfg kafka.Config) *kafka.Sink {
	t.Helper()
	return must.Get(kafka.New(cfg))(t)
}

// running is a sink that runs.
type running struct {
	*kafka.Sink
	stop context.CancelFunc
	// ended is what Run returned.
	ended chan error
}

// start runs a sink until the test ends, and returns when it is ready.
func start(t testing.TB, cfg kafka.Config) *running {
	t.Helper()
	r := launch(t, cfg)
	rig.Try(t, "the sink is ready", r.Ready)
	return r
}

// launch runs a sink until the test ends.
func launch(t testing.TB, cfg kafka.Config) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{Sink: newSink(t, cfg), stop: cancel, ended: make(chan error, 1)}
	var work sync.WaitGroup
	work.Go(func() { r.ended <- r.Run(ctx) })
	t.Cleanup(func() { cancel(); work.Wait() })
	return r
}

// end waits for the end of Run.
func (r *running) end(t testing.TB) error {
	t.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(time.Minute):
		t.Fatal("Run has not ended")
		return nil
	}
}

// message is the n-th of a key.
func message(topic, key string, n int) *sink.Message {
	id := fmt.Sprintf("%s.%d", key, n)
	return &sink.Message{
		Subject: topic, Key: key, ID: id, ContentType: "application/json",
		Data: fmt.Appendf(nil, `{"key":%q,"n":%d}`, key, n),
		Attributes: []sink.Attribute{
			{Name: "specversion", Value: "1.0"},
			{Name: "id", Value: id},
			{Name: "source", Value: "/clusters/test/api/v1/pods"},
			{Name: "type", Value: "io.kube-eventbridge.resource.updated.v1"},
			{Name: "datacontenttype", Value: "application/json"},
			{Name: "partitionkey", Value: key},
		},
	}
}

type answer struct {
	sink.Receipt
	err error
}

// send publishes and does not wait.
func send(t testing.TB, p sink.Publisher, m *sink.Message) <-chan answer {
	a := make(chan answer, 2)
	p.Publish(t.Context(), m, func(r sink.Receipt, err error) { a <- answer{r, err} })
	return a
}

func wait(t testing.TB, a <-chan answer) answer {
	t.Helper()
	select {
	case got := <-a:
		return got
	case <-time.After(time.Minute):
		t.Fatal("no answer")
		return answer{}
	}
}

// publish publishes and wants it acknowledged.
func publish(t testing.TB, p sink.Publisher, m *sink.Message) sink.Receipt {
	t.Helper()
	a := wait(t, send(t, p, m))
	require.NoError(t, a.err, "publish %s", m.ID)
	return a.Receipt
}

// record is one as the topic has it.
type record struct {
	internal.Record
	partition int32
}

func (r *record) header(name string) string {
	for _, h := range r.Headers {
		if h.Name == name {
			return string(h.Value)
		}
	}
	return ""
}

// own reports whether the sink itself wrote a record.
func (r *record) own() bool { return strings.HasPrefix(r.header("ce_id"), "writer-started.") }

// records reads a topic from its beginning to its end, past the sink. A topic that is missing has none.
func (r *testTopic) records(t testing.TB, topic string) (all []record) {
	t.Helper()
	c := must.Get(internal.NewClient(internal.Config{Brokers: r.AddressesOf(direct)}))(t)
	defer c.Close()
	var n int
	missing := false
	rig.Try(t, "the topic is found", func() error {
		_, _, err := c.Incarnation(t.Context(), topic)
		if missing = errors.Is(err, internal.ErrNoTopic); missing {
			return nil
		}
		if err == nil {
			n, err = c.Partitions(t.Context(), topic)
		}
		return err
	})
	if missing {
		return nil
	}
	var bounds map[int32]internal.Bounds
	rig.Try(t, "the bounds", func() (err error) {
		bounds, err = c.Bounds(t.Context(), topic, n)
		return err
	})
	for p := range int32(n) {
		for at := bounds[p].First; at < bounds[p].Next; {
			next, _ := must.Get2(c.Fetch(t.Context(), topic, p, at, func(rec *internal.Record) error {
				all = append(all, record{*rec, p})
				return nil
			}))(t)
			at = next
		}
	}
	return all
}

// log is what the sink's own reading makes of what others published.
func (r *testTopic) log(t *testing.T) (all []sink.Stored) {
	for _, rec := range r.records(t, r.topic) {
		if !rec.own() && rec.Value != nil {
			st := sink.Stored{
				Sequence: uint64(rec.Offset) + 1, Partition: rec.partition, Time: rec.Time, Data: rec.Value,
				ContentType: rec.header("content-type"),
			}
			for _, h := range rec.Headers {
				if name, is := strings.CutPrefix(h.Name, "ce_"); is {
					st.Attributes = append(st.Attributes, sink.Attribute{Name: name, Value: string(h.Value)})
				}
			}
			st.ID = rec.header("ce_id")
			if st.ContentType == "application/json" {
				st.Attributes = append(st.Attributes, sink.Attribute{Name: "datacontenttype", Value: st.ContentType})
			} else {
				st.ID = structuredID.FindStringSubmatch(string(st.Data))[1]
			}
			all = append(all, st)
		}
	}
	return all
}

var structuredID = regexp.MustCompile(`"id":"([^"]*)"`)

// admin returns a client that leaves nothing running when it is done.
func (r *testTopic) admin() (c *kafkago.Client, done func()) {
	transport := &kafkago.Transport{}
	return &kafkago.Client{Addr: kafkago.TCP(r.AddressesOf(direct)...), Transport: transport, Timeout: 20 * time.Second},
		transport.CloseIdleConnections
}

// purge removes all records of a topic, as limits do.
func (r *testTopic) purge(t *testing.T, topic string, partitions int) {
	t.Helper()
	var list []string
	for p := range partitions {
		list = append(list, fmt.Sprintf(`{"topic":%q,"partition":%d,"offset":-1}`, topic, p))
	}
	file := filepath.Join(t.TempDir(), "offsets.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"version":1,"partitions":[`+strings.Join(list, ",")+`]}`), 0o600))
	_, err := r.Tool(t.Context(), "org.apache.kafka.tools.DeleteRecordsCommand", "--bootstrap-server", r.Bootstrap(),
		"--offset-json-file", file)
	require.NoError(t, err)
	require.NoError(t, pause.For(t.Context(), 3*purgeKept))
}

const apiProduce = proxy.KafkaProduce

// brokerProxy stands before a broker. A request can be held back, and an answer can be lost.
type brokerProxy struct {
	*proxy.Proxy

	mu sync.Mutex // guards what follows
	// held says whether a request waits until released is closed.
	held     func(api int16, request []byte) bool
	released chan struct{}
	// seen is told of each request, behind its length. It says whether the answer is lost, with the connection.
	seen func(api int16, request []byte) (lose bool)
	lost map[*proxy.Conn]bool

	// waiting is how many requests are held back.
	waiting atomic.Int32
}

func newProxy(target string) (*brokerProxy, error) {
	p := &brokerProxy{lost: map[*proxy.Conn]bool{}}
	p.Proxy = proxy.New(proxy.Handler{Read: proxy.ReadKafka, Request: p.request, Answer: p.answer})
	_, err := p.Before(target)
	return p, err
}

func (p *brokerProxy) close() error {
	p.release()
	return p.Close()
}

// hold holds back the requests that f chooses, by their number and what is behind their length, from now on until
// release. Their connections to the broker stay, whatever becomes of the client.
func (p *brokerProxy) hold(f func(api int16, request []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held, p.released = f, make(chan struct{})
}

func (p *brokerProxy) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil {
		close(p.released)
	}
	p.held = nil
}

// watch has f told of each request.
func (p *brokerProxy) watch(f func(api int16, request []byte) (lose bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = f
}

// request returns when a request may go on.
func (p *brokerProxy) request(c *proxy.Conn, frame []byte) (bool, error) {
	api, request := proxy.KafkaAPI(frame), frame[4:]
	p.mu.Lock()
	held, released, seen := p.held, p.released, p.seen
	p.mu.Unlock()
	if seen != nil && seen(api, request) {
		c.Keep() // the broker is to read the request
		p.mu.Lock()
		p.lost[c] = true
		p.mu.Unlock()
	}
	if held != nil && held(api, request) {
		c.Keep()
		p.waiting.Add(1)
		<-released
		p.waiting.Add(-1)
	}
	return true, nil
}

func (p *brokerProxy) answer(c *proxy.Conn, _ []byte) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost[c] {
		delete(p.lost, c)
		return false, errors.New("an answer is lost")
	}
	return true, nil
}
