// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

// kafkaWindow is how many records may be unacknowledged, of the bridge by default and of franz-go here.
const kafkaWindow = 4096

// franzRole publishes with franz-go as fast as the broker takes it: idempotent, acknowledged by all, uncompressed, one
// record again and again, with a key of its own for each object. Each line read, a number, makes it publish that many
// and report.
func franzRole(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	flags := flag.NewFlagSet("franz", flag.ContinueOnError)
	brokers := flags.String("brokers", "localhost:9092", "`addresses`, joined by commas")
	topic := flags.String("topic", "", "the `name` of a topic that exists")
	objects := flags.Int("objects", 20_000, "number of keys")
	file := flags.String("sample", "", "record to repeat, from this `file`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *topic == "" {
		return errors.New("-topic is missing")
	}
	f, err := newFranz(ctx, strings.Split(*brokers, ","), *topic, *file, *objects)
	if err != nil {
		return err
	}
	defer f.client.Close()
	return obey(ctx, *brokers, stdin, stdout, f.publish)
}

type franz struct {
	client *kgo.Client
	// ring holds more records than can be unacknowledged, so that none is changed while it is on its way.
	ring [2 * kafkaWindow]kgo.Record
	keys [][]byte
	sent int
}

func newFranz(ctx context.Context, brokers []string, topic, file string, objects int) (*franz, error) {
	s, err := readSample(file)
	if err != nil {
		return nil, err
	}
	f := &franz{keys: make([][]byte, objects)}
	for i := range objects {
		id := identityOf(i)
		f.keys[i] = []byte("bench/core/pods/" + id.Namespace + "/" + id.Name)
	}
	var headers []kgo.RecordHeader
	for name, values := range s.Header {
		// A default sample is one of NATS.
		if attribute, ok := strings.CutPrefix(strings.ReplaceAll(name, "ce-", "ce_"), "ce_"); ok {
			headers = append(headers, kgo.RecordHeader{Key: "ce_" + attribute, Value: []byte(values[0])})
		}
	}
	for i := range f.ring {
		f.ring[i] = kgo.Record{Topic: topic, Headers: headers, Value: s.Data}
	}
	f.client, err = kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.MaxBufferedRecords(kafkaWindow),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(0))
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	if err := f.client.Ping(ctx); err != nil {
		f.client.Close()
		return nil, fmt.Errorf("ask %v: %w", brokers, err)
	}
	return f, nil
}

// publish returns when n more records are acknowledged.
func (f *franz) publish(ctx context.Context, n int) error {
	var all sync.WaitGroup
	var failure atomic.Pointer[error]
	all.Add(n)
	for range n {
		r := &f.ring[f.sent%len(f.ring)]
		value, headers, topic := r.Value, r.Headers, r.Topic
		*r = kgo.Record{Topic: topic, Headers: headers, Value: value, Key: f.keys[f.sent%len(f.keys)]}
		f.sent++
		f.client.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err != nil {
				failure.CompareAndSwap(nil, &err)
			}
			all.Done()
		})
	}
	all.Wait()
	if err := failure.Load(); err != nil {
		return fmt.Errorf("publish: %w", *err)
	}
	return nil
}
