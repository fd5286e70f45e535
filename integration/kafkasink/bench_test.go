// SPDX-License-Identifier: Apache-2.0

package kafkasink

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"

	"github.com/kube-eventbridge/kube-eventbridge/integration/kafkabroker"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// What all publish: values of 4 KB with the headers of an event, to twelve partitions of one broker, acknowledged by
// all replicas, by an idempotent producer, without compression, 4096 of them unacknowledged at most.
const (
	benchPartitions = 12
	benchValue      = 4 << 10
	benchWindow     = 4096
	benchKeys       = 10_000
)

var fast = kafkabroker.NewShared(kafkabroker.Config{
	JVMOptions: []string{"-Xmx1g", "-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC", "-XX:+UseG1GC"},
	Properties: map[string]string{
		"log.retention.bytes": "268435456", "log.segment.bytes": "67108864",
		"num.io.threads": "8", "num.network.threads": "3",
	},
})

// contender publishes n records to a topic and returns when all are acknowledged.
type contender struct {
	name    string
	publish func(b *testing.B, r *testTopic, n int) taken
}

// taken is what publishing took: the rate in records a second, and for a record the broker's processor time in
// microseconds and, of those that run in this process, that of the producer, its bytes and its allocations.
type taken struct{ rate, broker, cpu, bytes, allocs float64 }

var contenders = []contender{
	{"sink", publishSink},
	{"franz", func(b *testing.B, r *testTopic, n int) taken { return publishFranz(b, r, n, 0) }},
	{"franz-linger-5ms", func(b *testing.B, r *testTopic,
		n int,
	) taken {
		return publishFranz(b, r, n, 5*time.Millisecond)
	}},
	{"perf-test", publishPerfTest},
}

// benchRecords is what each contender publishes in a round.
const benchRecords = 200_000

// One operation is a round: all contenders, one after the other on one broker, each to a topic of its own. Which of
// them begins changes with the round. Figures are medians over the rounds, those with "/" medians of each round's ratio
// of the sink's rate to the other's.
//
//	go test -run '^$' -bench 'Producers$' -benchtime 5x ./kafkasink
func BenchmarkProducers(b *testing.B) {
	c := fast.ForTest(b)
	for _, warm := range contenders[:2] { // the broker's compiler has work with the first records
		publishTo(b, c, warm, benchRecords)
	}
	found := map[string][]float64{}
	b.ResetTimer()
	for round := range b.N {
		rates := map[string]float64{}
		for n := range contenders {
			x := contenders[(n+round)%len(contenders)]
			t := publishTo(b, c, x, benchRecords)
			rates[x.name] = t.rate
			found[x.name+"-rec/s"] = append(found[x.name+"-rec/s"], t.rate)
			found[x.name+"-broker-µs"] = append(found[x.name+"-broker-µs"], t.broker)
			if t.cpu > 0 {
				found[x.name+"-cpu-µs"] = append(found[x.name+"-cpu-µs"], t.cpu)
				found[x.name+"-B"] = append(found[x.name+"-B"], t.bytes)
				found[x.name+"-allocs"] = append(found[x.name+"-allocs"], t.allocs)
			}
		}
		for _, x := range contenders[1:] {
			found["sink/"+x.name] = append(found["sink/"+x.name], rates["sink"]/rates[x.name])
		}
		b.Logf("round %d, records a second: %v", round+1, rates)
	}
	for what, values := range found {
		b.ReportMetric(median(values), what)
	}
}

func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// publishTo has one contender publish to a new topic, which is removed again.
func publishTo(b *testing.B, c *kafkabroker.Cluster, x contender, n int) taken {
	r := &testTopic{c, kafkabroker.UniqueTopic(b)}
	require.NoError(b, c.CreateTopic(b.Context(), r.topic, benchPartitions, 0, nil))
	unix.Sync() // what others wrote is not written back to the disk meanwhile
	before := brokerTime(b, c)
	t := x.publish(b, r, n)
	t.broker = float64((brokerTime(b, c) - before).Nanoseconds()) / 1e3 / float64(n)
	c.DeleteTopic(b, r.topic)
	return t
}

// measured calls f, which publishes n records, and says what that took.
func measured(n int, f func()) taken {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	cpu, began := processorTime(), time.Now()
	f()
	elapsed, used := time.Since(began), processorTime()-cpu
	runtime.ReadMemStats(&after)
	each := float64(n)
	return taken{
		each / elapsed.Seconds(), 0, float64(used.Nanoseconds()) / 1e3 / each,
		float64(after.TotalAlloc-before.TotalAlloc) / each, float64(after.Mallocs-before.Mallocs) / each,
	}
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// brokerTime is the processor time that the broker has used until now.
func brokerTime(b *testing.B, c *kafkabroker.Cluster) time.Duration {
	const wholeProcess = 2 // see clock_getcpuclockid(3)
	var t unix.Timespec
	require.NoError(b, unix.ClockGettime(int32(^c.PID(0)<<3|wholeProcess), &t))
	return time.Duration(t.Nano())
}

func benchMessages(topic string) []*sink.Message {
	value := []byte(`{"pad":"` + strings.Repeat("kube", benchValue/4-3) + `"}`)
	var all []*sink.Message
	for n := range benchKeys {
		m := message(topic, fmt.Sprintf("prod/core/pods/default/web-%d", n), 1)
		m.Attributes = append(m.Attributes, sink.Attribute{Name: "time", Value: "2026-01-02T03:04:05Z"},
			sink.Attribute{Name: "resourceversion", Value: "12345678"})
		m.Data = value
		all = append(all, m)
	}
	return all
}

func publishSink(b *testing.B, r *testTopic, n int) taken {
	cfg := r.config(direct)
	cfg.Window = benchWindow
	ctx, end := context.WithCancel(b.Context())
	s := newSink(b, cfg)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		end()
		require.NoError(b, <-ended)
	}()
	messages := benchMessages(r.topic)
	// It waits for the topic to be open.
	s.Publish(ctx, messages[0], func(_ sink.Receipt, err error) { require.NoError(b, err) })
	return measured(n, func() {
		var all sync.WaitGroup
		all.Add(n)
		for i := range n {
			s.Publish(ctx, messages[i%benchKeys], func(_ sink.Receipt, err error) {
				assert.NoError(b, err)
				all.Done()
			})
		}
		all.Wait()
	})
}

func publishFranz(b *testing.B, r *testTopic, n int, linger time.Duration) taken {
	cl, err := kgo.NewClient(kgo.SeedBrokers(r.AddressesOf(direct)...), kgo.MaxBufferedRecords(benchWindow),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(linger))
	require.NoError(b, err)
	defer cl.Close()
	messages := benchMessages(r.topic)
	var records []kgo.Record
	for _, m := range messages {
		rec := kgo.Record{
			Topic: r.topic, Key: []byte(m.Key), Value: m.Data,
			Headers: []kgo.RecordHeader{{Key: "content-type", Value: []byte(m.ContentType)}},
		}
		for _, a := range m.Attributes[:len(m.Attributes)-1] {
			rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: "ce_" + a.Name, Value: []byte(a.Value)})
		}
		records = append(records, rec)
	}
	require.NoError(b, cl.ProduceSync(b.Context(), &kgo.Record{Topic: r.topic, Value: []byte("first")}).FirstErr())
	return measured(n, func() {
		var all sync.WaitGroup
		all.Add(n)
		for i := range n {
			rec := records[i%benchKeys]
			cl.Produce(b.Context(), &rec, func(_ *kgo.Record, err error) {
				assert.NoError(b, err)
				all.Done()
			})
		}
		all.Wait()
	})
}

// perfTestRate finds the rate over all records in what Kafka's own tool prints at its end.
var perfTestRate = regexp.MustCompile(`records sent, ([0-9.]+) records/sec .*99.9th`)

// recordSize is what key, value and headers of a message take.
func recordSize(m *sink.Message) int {
	size := len(m.Key) + len(m.Data) + len("content-type") + len(m.ContentType)
	for _, a := range m.Attributes {
		size += len("ce_") + len(a.Name) + len(a.Value)
	}
	return size
}

// publishPerfTest runs Kafka's own tool, with the settings that were the fastest here.
func publishPerfTest(b *testing.B, r *testTopic, n int) taken {
	out, err := r.Tool(b.Context(), "org.apache.kafka.tools.ProducerPerformance", "--topic", r.topic, "--num-records",
		strconv.Itoa(n),
		"--record-size", strconv.Itoa(recordSize(benchMessages(r.topic)[0])), "--throughput", "-1", "--producer-props",
		"bootstrap.servers="+r.Bootstrap(),
		"acks=all", "enable.idempotence=true", "batch.size=524288", "linger.ms=5")
	require.NoError(b, err)
	found := perfTestRate.FindSubmatch(out)
	require.NotNil(b, found, "the tool does not say its rate:\n%s", out)
	rate := must.Get(strconv.ParseFloat(string(found[1]), 64))(b)
	return taken{rate: rate}
}
