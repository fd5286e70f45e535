// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
)

// Message is one message of a log, as the broker has it.
type Message struct {
	// Sequence is its place in the stream; on Kafka it is the offset in the partition.
	Sequence uint64
	// Time is when the broker has stored it; on Kafka it is what the bridge took for the time.
	Time   time.Time
	Header map[string][]string
	Data   []byte
	// Subject is NATS's.
	Subject string
	// What follows is Kafka's. Producer and Epoch are those that the record was sent with.
	Partition int32  `json:",omitempty"`
	Key       string `json:",omitempty"`
	Producer  int64  `json:",omitempty"`
	Epoch     int16  `json:",omitempty"`
}

// Entry is the message as the oracle takes it: it has to be an event.
func (m *Message) Entry() (oracle.Entry, error) {
	header, data, err := m.binary()
	if err != nil {
		return oracle.Entry{}, fmt.Errorf("read entry %d: %w", m.Sequence, err)
	}
	e, err := oracle.NewEntry(header, data, m.Sequence)
	e.Stored, e.Address = m.Time, m.Subject
	if err == nil && m.Key != "" {
		e.Record = oracle.Record{
			Partition: m.Partition, Offset: int64(m.Sequence), //nolint:gosec // it came from an offset
			Key: m.Key, Producer: m.Producer, ProducerEpoch: m.Epoch,
		}
	}
	return e, err
}

// Structured reports whether the message is in structured mode.
func (m *Message) Structured() bool {
	for name, values := range m.Header {
		if strings.EqualFold(name, "content-type") && slices.Equal(values, []string{"application/cloudevents+json"}) {
			return true
		}
	}
	return false
}

// binary returns what the message would be in binary mode. In structured mode the attributes stand beside the data.
func (m *Message) binary() (header map[string][]string, data []byte, err error) {
	if !m.Structured() {
		return m.Header, m.Data, nil
	}
	var attributes map[string]json.RawMessage
	if err := json.Unmarshal(m.Data, &attributes); err != nil {
		return nil, nil, err
	}
	header = maps.Clone(m.Header)
	for name, value := range attributes {
		if name == "data" {
			continue
		}
		text := string(value)
		_ = json.Unmarshal(value, &text) // it is a text or a number
		header["ce_"+name] = []string{text}
	}
	return header, attributes["data"], nil
}

// Entries are the messages of a log as the oracle takes them.
func Entries(log []Message) (all []oracle.Entry, err error) {
	all = make([]oracle.Entry, len(log))
	for i := range log {
		if all[i], err = log[i].Entry(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Log reads the log that a bridge writes.
type Log interface {
	// Read returns all messages, each partition's in its order, as far as the log was written when Read was called. It
	// asks the broker only for what earlier calls have not returned. A log that does not exist has no messages. With an
	// error come those that were read before. The slice is the Log's, and the caller must not change it.
	Read(ctx context.Context) ([]Message, error)
}

// natsLog is a stream of a NATS server.
type natsLog struct {
	js     jetstream.JetStream
	stream string

	mu      sync.Mutex // guards what follows
	created time.Time  // tells a stream from one of the same name that was deleted
	all     []Message
}

// NATSLog returns the log that is a stream of a NATS server. A stream that is deleted and made again, or put back to an
// older state, is read again from its beginning.
func NATSLog(js jetstream.JetStream, stream string) Log { return &natsLog{js: js, stream: stream} }

func (l *natsLog) Read(ctx context.Context) ([]Message, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	stream, err := l.js.Stream(ctx, l.stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		l.all = nil
		return nil, nil
	}
	if err != nil {
		return l.all, fmt.Errorf("read stream %s: %w", l.stream, err)
	}
	info := stream.CachedInfo()
	rewound, err := l.rewound(ctx, stream, info.State.LastSeq)
	if err != nil {
		return l.all, fmt.Errorf("read stream %s: %w", l.stream, err)
	}
	if !info.Created.Equal(l.created) || rewound {
		l.created, l.all = info.Created, nil
	}
	for next := l.next(); next <= info.State.LastSeq && info.State.Msgs > 0; next = l.next() {
		// With a subject the answer is the next message that there is: some may have been deleted.
		m, err := stream.GetMsg(ctx, next, jetstream.WithGetMsgSubject(">"))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			break
		}
		if err != nil {
			return l.all, fmt.Errorf("read stream %s at %d: %w", l.stream, next, err)
		}
		l.all = append(l.all, Message{Sequence: m.Sequence, Time: m.Time, Subject: m.Subject, Header: m.Header, Data: m.Data})
	}
	return l.all, nil
}

// rewound reports whether the stream was put back to an older state, so that the last message that was read is another
// one now, or is not there yet.
func (l *natsLog) rewound(ctx context.Context, stream jetstream.Stream, end uint64) (bool, error) {
	if len(l.all) == 0 {
		return false, nil
	}
	last := &l.all[len(l.all)-1]
	if last.Sequence > end {
		return true, nil
	}
	m, err := stream.GetMsg(ctx, last.Sequence)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil // one that was removed is no other one
	}
	return err == nil && !m.Time.Equal(last.Time), err
}

func (l *natsLog) next() uint64 {
	if len(l.all) == 0 {
		return 1
	}
	return l.all[len(l.all)-1].Sequence + 1
}

// KafkaTopic is the log that is a topic of Kafka.
type KafkaTopic struct {
	client *kgo.Client
	admin  *kadm.Client
	topic  string

	mu   sync.Mutex      // guards what follows
	next map[int32]int64 // the offset behind what was read, by partition
	all  []Message
}

// KafkaLog returns the log that is a topic, read with a client that nothing of the bridge is made of. The caller closes
// it.
func KafkaLog(topic string, brokers []string, options ...kgo.Opt) (*KafkaTopic, error) {
	options = append(options, kgo.SeedBrokers(brokers...), kgo.KeepControlRecords(),
		kgo.MetadataMinAge(100*time.Millisecond),
		kgo.FetchMaxWait(time.Second))
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("read topic %s: %w", topic, err)
	}
	return &KafkaTopic{client: client, admin: kadm.NewClient(client), topic: topic, next: map[int32]int64{}}, nil
}

// Close ends the client.
func (l *KafkaTopic) Close() { l.client.Close() }

// Partitions returns how many partitions were known at the last [KafkaTopic.Read].
func (l *KafkaTopic) Partitions() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.next)
}

// Read is [Log]'s. A topic must not be deleted and made again.
func (l *KafkaTopic) Read(ctx context.Context) ([]Message, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	begins, err := l.admin.ListStartOffsets(ctx, l.topic)
	if err != nil {
		return l.all, fmt.Errorf("read topic %s: %w", l.topic, err)
	}
	ends, err := l.admin.ListEndOffsets(ctx, l.topic)
	if err = errors.Join(err, begins.Error(), ends.Error()); err != nil {
		return l.all, fmt.Errorf("read topic %s: %w", l.topic, err)
	}
	left, fresh := map[int32]int64{}, map[int32]kgo.Offset{}
	ends.Each(func(end kadm.ListedOffset) {
		begin, _ := begins.Lookup(l.topic, end.Partition)
		if _, known := l.next[end.Partition]; !known {
			fresh[end.Partition], l.next[end.Partition] = kgo.NewOffset().At(begin.Offset), begin.Offset
		}
		if end.Offset > max(l.next[end.Partition], begin.Offset) {
			left[end.Partition] = end.Offset
		}
	})
	if len(fresh) > 0 {
		l.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{l.topic: fresh})
	}
	for len(left) > 0 {
		fetched := l.client.PollFetches(ctx)
		if ctx.Err() != nil {
			return l.all, fmt.Errorf("read topic %s: %w", l.topic, context.Cause(ctx))
		}
		fetched.EachRecord(func(r *kgo.Record) {
			l.take(r)
			if end, ok := left[r.Partition]; ok && l.next[r.Partition] >= end {
				delete(left, r.Partition)
			}
		})
	}
	return l.all, nil
}

func (l *KafkaTopic) take(r *kgo.Record) {
	l.next[r.Partition] = r.Offset + 1
	if r.Attrs.IsControl() {
		return
	}
	m := Message{
		Sequence: uint64(r.Offset), Partition: r.Partition, Time: r.Timestamp, //nolint:gosec // not negative
		Key: string(r.Key), Data: r.Value, Header: map[string][]string{}, Producer: r.ProducerID, Epoch: r.ProducerEpoch,
	}
	for _, h := range r.Headers {
		m.Header[h.Key] = append(m.Header[h.Key], string(h.Value))
	}
	l.all = append(l.all, m)
}
