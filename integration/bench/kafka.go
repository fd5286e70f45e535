// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/try"
	"github.com/kube-eventbridge/kube-eventbridge/integration/kafkabroker"
)

const kafkaPartitions = 12

// fastBroker is one broker as it would be run, with a little less memory.
var fastBroker = kafkabroker.Config{
	JVMOptions: []string{"-Xmx1g", "-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC", "-XX:+UseG1GC"},
	Properties: map[string]string{"num.io.threads": "8", "num.network.threads": "3"},
}

// kafkaRun is one run of f: subjects that publish to one broker, one after the other.
type kafkaRun struct {
	*bench
	run     int
	cluster *kafkabroker.Cluster
}

// intoKafka is one run of f. All runs have one broker.
func (b *bench) intoKafka(ctx context.Context, run int) error {
	ctx, cancel := deadline(ctx, 5*time.Minute+time.Duration(b.objects+b.events)*4*time.Millisecond)
	defer cancel()
	if b.kafkaBroker == nil {
		if err := b.startKafka(ctx); err != nil {
			return err
		}
	}
	k := &kafkaRun{b, run, b.kafkaBroker}
	var subjects []func() error
	if b.withBridge {
		subjects = append(subjects, func() error { return k.bridge(ctx) })
	}
	if b.withPublisher {
		subjects = append(subjects, func() error { return k.franz(ctx, "franz", true) })
	}
	if run%2 == 0 && len(subjects) == 2 {
		subjects[0], subjects[1] = subjects[1], subjects[0]
	}
	for _, measure := range subjects {
		if err := measure(); err != nil {
			return err
		}
	}
	return nil
}

// warmUps is how often the broker is given a run's records before the first run. Java compiles what is run often in
// threads of its own, for some 10 s of processor time: whoever is measured meanwhile has one core less.
const warmUps = 5

// startKafka starts the broker of all runs, and gives it work until it is as fast as it becomes. It is closed by
// [drive].
func (b *bench) startKafka(ctx context.Context) (err error) {
	config := fastBroker
	config.Log, config.Dir = b.log, b.kafkaDir()
	if b.kafkaBroker, err = kafkabroker.Start(ctx, config); err != nil {
		return err
	}
	k := &kafkaRun{bench: b, cluster: b.kafkaBroker}
	for n := range warmUps {
		b.progress("the broker warms up, %d of %d", n+1, warmUps)
		if err := k.franz(ctx, fmt.Sprintf("warm-%d", n), false); err != nil {
			return err
		}
	}
	return comeToRest(ctx, "the broker", 25*time.Millisecond, k.brokerTime)
}

func (b *bench) kafkaDir() string { return filepath.Join(b.dir, "kafka") }

func (k *kafkaRun) brokerTime() (time.Duration, error) { return cpuOf("the broker", k.cluster.PID(0)) }

func (b *bench) kafkaRow(metric, unit string) row {
	return row{thousands(b.events) + " watch events into Kafka", metric, unit}
}

// topic makes one, which is removed at the end of the scope.
func (k *kafkaRun) topic(ctx context.Context, end *try.Scope, name string) {
	try.Do(k.cluster.CreateTopic(ctx, name, kafkaPartitions, 0, nil))
	unix.Sync()
	end.Finally(func() error {
		res, err := k.cluster.Admin().DeleteTopics(ctx, &kafkago.DeleteTopicsRequest{Topics: []string{name}})
		if err == nil {
			err = res.Errors[name]
		}
		if err != nil {
			return fmt.Errorf("remove topic %s: %w", name, err)
		}
		return nil
	})
}

// bridge measures the bridge on a watch that has all events at once.
func (k *kafkaRun) bridge(ctx context.Context) error {
	k.progress("run %d: %s into Kafka, %s objects, %s events", k.run, colBridge, thousands(k.objects), thousands(k.events))
	const topic = "kubernetes"
	return try.Run(func(end *try.Scope) {
		k.topic(ctx, end, topic)
		r := k.newServer(ctx, end, pods, k.objects)
		r.sink = fmt.Sprintf("kafka: {brokers: [%q], topic: %s}", strings.Join(k.cluster.Addresses(), `", "`), topic)
		p := try.Get(k.startBridge(r, "pods", "", nil))
		end.Finally(p.stop)
		// Each partition has the writer's first record and both markers of the list.
		listed := k.objects + 3*kafkaPartitions
		try.Get(k.await(ctx, topic, listed, p))
		try.Do(settle(ctx, p))
		k.measured(colBridge, p, func() time.Time {
			try.Do(r.emit(ctx, k.events))
			return try.Get(k.await(ctx, topic, listed+k.events, p))
		})
		try.Do(settle(ctx, p))
		try.Get(k.await(ctx, topic, listed+k.events, p)) // nothing was published after the last record
		try.Do(k.keepRecord(ctx, topic))
	})
}

// franz publishes records of the same size with franz-go: as many as there are objects first, then as many as there are
// events.
func (k *kafkaRun) franz(ctx context.Context, topic string, counts bool) error {
	if counts {
		k.progress("run %d: franz-go", k.run)
	}
	return try.Run(func(end *try.Scope) {
		k.topic(ctx, end, topic)
		p, _, err := startRole(ctx, "franz", "-brokers", strings.Join(k.cluster.Addresses(), ","), "-topic", topic,
			"-objects", fmt.Sprint(k.objects), "-sample", k.record)
		try.Do(err)
		end.Finally(p.stop)
		try.Do(p.ask(ctx, k.objects))
		if !counts {
			try.Do(p.ask(ctx, k.events))
			return
		}
		try.Do(settle(ctx, p))
		k.measured(colPublisher, p, func() time.Time {
			try.Do(p.ask(ctx, k.events))
			return time.Now()
		})
	})
}

// measured adds what the events cost that publish publishes. It returns when the last one was there.
func (k *kafkaRun) measured(column string, p *process, publish func() time.Time) {
	before, brokerBefore := try.Get(p.cpu()), try.Get(k.brokerTime())
	began := time.Now()
	last := publish()
	after, brokerAfter, peak := try.Get(p.cpu()), try.Get(k.brokerTime()), try.Get(p.peak())
	k.add(k.run, k.kafkaRow("events per second", "/s"), column, float64(k.events)/last.Sub(began).Seconds())
	k.add(k.run, k.kafkaRow("CPU per event", "µs"), column, perUnit(after-before, k.events))
	k.add(k.run, k.kafkaRow("CPU of the broker per event", "µs"), column, perUnit(brokerAfter-brokerBefore, k.events))
	k.add(k.run, k.kafkaRow("peak RSS", "MiB"), column, float64(peak)/(1<<20))
}

// await waits until a topic has n records, and returns when the last one came. More than n is an error. The broker is
// not asked while its files grow, because that would cost it time.
func (k *kafkaRun) await(ctx context.Context, topic string, n int, subject *process) (last time.Time, err error) {
	const every, quiet = 5 * time.Millisecond, 100 * time.Millisecond
	have, size, last := 0, int64(-1), time.Now()
	err = poll(ctx, every, func() (bool, error) {
		now, err := k.size(topic)
		if err != nil {
			return false, err
		}
		if now != size {
			size, last = now, time.Now()
		}
		if time.Since(last) < quiet {
			return false, subject.alive()
		}
		if have, err = k.records(ctx, topic); err != nil {
			return false, errors.Join(err, subject.alive())
		}
		return have >= n, subject.alive()
	})
	if err == nil && have > n {
		err = errors.New("that is too many")
	}
	if err != nil {
		return last, fmt.Errorf("%s published %d of %d records: %w\n%s", subject.name, have, n, err, subject.stderr.Bytes())
	}
	return last, nil
}

// size returns how large the files of a topic's records are: one of each partition, which takes 1 GiB.
func (k *kafkaRun) size(topic string) (all int64, err error) {
	for n := range kafkaPartitions {
		info, err := os.Stat(filepath.Join(k.kafkaDir(), "broker-0", "data", fmt.Sprintf("%s-%d", topic, n),
			"00000000000000000000.log"))
		if err != nil {
			return 0, fmt.Errorf("look at the topic's files: %w", err)
		}
		all += info.Size()
	}
	return all, nil
}

// records returns how many there are in a topic.
func (k *kafkaRun) records(ctx context.Context, topic string) (int, error) {
	var ends []kafkago.OffsetRequest
	for i := range kafkaPartitions {
		ends = append(ends, kafkago.LastOffsetOf(i))
	}
	res, err := k.cluster.Admin().ListOffsets(ctx,
		&kafkago.ListOffsetsRequest{Topics: map[string][]kafkago.OffsetRequest{topic: ends}})
	if err != nil {
		return 0, fmt.Errorf("count the records: %w", err)
	}
	all := 0
	for _, p := range res.Topics[topic] {
		if p.Error != nil {
			return 0, fmt.Errorf("count the records: %w", p.Error)
		}
		all += int(p.LastOffset)
	}
	return all, nil
}

// keepRecord writes down what the bridge's last record is like, so that franz-go does the same work.
func (k *kafkaRun) keepRecord(ctx context.Context, topic string) error {
	if k.record != "" {
		return nil
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(k.cluster.Addresses()...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtEnd().Relative(-1)}}))
	if err != nil {
		return fmt.Errorf("read a record of the bridge: %w", err)
	}
	defer cl.Close()
	fetched := cl.PollRecords(ctx, 1)
	if err := fetched.Err(); err != nil {
		return fmt.Errorf("read a record of the bridge: %w", err)
	}
	found := fetched.Records()[0]
	s := sample{Data: found.Value, Header: nats.Header{}}
	for _, h := range found.Headers {
		s.Header[h.Key] = []string{string(h.Value)}
	}
	k.record = filepath.Join(k.dir, "record.json")
	return s.write(k.record)
}
