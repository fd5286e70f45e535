// SPDX-License-Identifier: Apache-2.0

package kafkasink

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kube-eventbridge/kube-eventbridge/integration/kafkabroker"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// What both publish: values of 4 KB with the headers of an event, to twelve partitions of one broker, acknowledged by all replicas, by an idempotent
// producer, without compression, 4096 of them unacknowledged at most.
const (
	benchPartitions = 12
	benchValue      = 4 << 10
	benchWindow     = 4096
	benchKeys       = 10_000
)

var fast = kafkabroker.NewShared(kafkabroker.Config{
	JVMOptions: []string{"-Xmx1g", "-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC", "-XX:+UseG1GC"},
	Properties: map[string]string{"log.retention.bytes": "268435456", "log.segment.bytes": "67108864", "num.io.threads": "8", "num.network.threads": "3"},
})

// measure reports what f, which publishes b.N records, takes: rate and processor time of this process.
func measure(b *testing.B, f func()) {
	b.SetBytes(benchValue)
	b.ReportAllocs()
	b.ResetTimer()
	before := processorTime()
	f()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rec/s")
	b.ReportMetric(float64((processorTime()-before).Microseconds())/float64(b.N), "cpu-µs/rec")
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchTopic(b *testing.B, c *kafkabroker.Cluster) *rig {
	b.Helper()
	r := &rig{c, fmt.Sprintf("bench-%d", count.Add(1))}
	ok(b, c.CreateTopic(b.Context(), r.topic, benchPartitions, 0, nil))
	return r
}

func benchMessages(topic string) []*sink.Message {
	value := []byte(`{"pad":"` + strings.Repeat("kube", benchValue/4-3) + `"}`)
	var all []*sink.Message
	for n := range benchKeys {
		m := message(topic, fmt.Sprintf("prod/core/pods/default/web-%d", n), 1)
		m.Attributes = append(m.Attributes, sink.Attribute{Name: "time", Value: "2026-01-02T03:04:05Z"}, sink.Attribute{Name: "resourceversion", Value: "12345678"})
		m.Data = value
		all = append(all, m)
	}
	return all
}

func BenchmarkProducer_sink(b *testing.B) {
	r := benchTopic(b, fast.ForTest(b))
	cfg := r.config(direct)
	cfg.Window = benchWindow
	s := start(b, cfg)
	messages := benchMessages(r.topic)
	measure(b, func() {
		var all sync.WaitGroup
		all.Add(b.N)
		for n := range b.N {
			s.Publish(b.Context(), messages[n%benchKeys], func(_ sink.Receipt, err error) {
				if err != nil {
					b.Error(err)
				}
				all.Done()
			})
		}
		all.Wait()
	})
}

func BenchmarkProducer_franz(b *testing.B) {
	r := benchTopic(b, fast.ForTest(b))
	cl, err := kgo.NewClient(kgo.SeedBrokers(r.AddressesOf(direct)...), kgo.MaxBufferedRecords(benchWindow), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(0))
	ok(b, err)
	defer cl.Close()
	messages := benchMessages(r.topic)
	var records []kgo.Record
	for _, m := range messages {
		rec := kgo.Record{Topic: r.topic, Key: []byte(m.Key), Value: m.Data, Headers: []kgo.RecordHeader{{Key: "content-type", Value: []byte(m.ContentType)}}}
		for _, a := range m.Attributes[:len(m.Attributes)-1] {
			rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: "ce_" + a.Name, Value: []byte(a.Value)})
		}
		records = append(records, rec)
	}
	measure(b, func() {
		var all sync.WaitGroup
		all.Add(b.N)
		for n := range b.N {
			rec := records[n%benchKeys]
			cl.Produce(b.Context(), &rec, func(_ *kgo.Record, err error) {
				if err != nil {
					b.Error(err)
				}
				all.Done()
			})
		}
		all.Wait()
	})
}
