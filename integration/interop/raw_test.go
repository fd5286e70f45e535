// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	contentJSON       = "application/json"
	contentStructured = "application/cloudevents+json"
)

// raw reads a log message by message, with a client that knows nothing of CloudEvents, and what it says by the letter of the bindings.
func (r *rig) raw(log string) (events []*event, err error) {
	if onKafka(log) {
		events, err = r.rawTopic(log)
	} else {
		events, err = r.rawStream(target(log))
	}
	for _, e := range events {
		if e.gone == "" && e.structured != structured(log) {
			return nil, fmt.Errorf("%s: it is in the wrong mode: %v", log, e)
		}
	}
	return events, err
}

func (r *rig) rawTopic(topic string) (events []*event, err error) {
	records, err := r.records(topic)
	for _, rec := range records {
		e, err := ofRecord(rec)
		if err != nil {
			return nil, fmt.Errorf("offset %d of partition %d: %w", rec.Offset, rec.Partition, err)
		}
		events = append(events, e)
	}
	return events, err
}

func (r *rig) rawStream(stream string) (events []*event, err error) {
	messages, err := r.messages(stream)
	for _, m := range messages {
		e, err := ofMessage(m)
		if err != nil {
			return nil, fmt.Errorf("message %s: %w", m.Subject, err)
		}
		events = append(events, e)
	}
	return events, err
}

// records reads all that a topic has now, of each partition in order.
func (r *rig) records(topic string) (records []*kgo.Record, err error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(r.kafka.Addresses()...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.KeepControlRecords())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
	if err := errors.Join(err, ends.Error()); err != nil {
		return nil, err
	}
	missing := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			missing[o.Partition] = o.Offset
		}
	})
	for len(missing) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("read topic %s: %w", topic, err)
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			records = append(records, rec)
			if rec.Offset+1 >= missing[rec.Partition] {
				delete(missing, rec.Partition)
			}
		})
	}
	return records, nil
}

// ofRecord reads a record by the Kafka binding. What is not as the binding has it, or more than it needs, is an error.
func ofRecord(r *kgo.Record) (*event, error) {
	if r.Value == nil {
		if len(r.Headers) > 0 {
			return nil, errors.New("a tombstone has headers")
		}
		return &event{gone: string(r.Key)}, nil
	}
	headers := map[string]string{}
	for _, h := range r.Headers {
		if _, twice := headers[h.Key]; twice {
			return nil, fmt.Errorf("header %s is there twice", h.Key)
		}
		headers[h.Key] = string(h.Value)
	}
	e, err := bound(headers, "ce_", r.Value, func(s string) (string, error) { return s, nil })
	if err == nil && e.attributes["partitionkey"] != string(r.Key) {
		err = fmt.Errorf("the key is %q, the partitionkey %q", r.Key, e.attributes["partitionkey"])
	}
	return e, err
}

// bound reads an event from headers with a prefix, or from a structured value. Of other headers there is only the content type.
func bound(headers map[string]string, prefix string, value []byte, unescape func(string) (string, error)) (*event, error) {
	if headers["content-type"] == contentStructured {
		if len(headers) > 1 {
			return nil, fmt.Errorf("a structured event has the headers %v", headers)
		}
		e, err := parseStructured(value)
		if err == nil {
			e.structured = true
		}
		return e, err
	}
	e := &event{attributes: map[string]string{}}
	for name, v := range headers {
		attribute, ok := strings.CutPrefix(name, prefix)
		if name == "content-type" {
			attribute, ok = "datacontenttype", true
		}
		if !ok {
			return nil, fmt.Errorf("there is a header %s", name)
		}
		v, err := unescape(v)
		if err != nil {
			return nil, err
		}
		if err := e.set(attribute, v); err != nil {
			return nil, err
		}
	}
	var err error
	e.data, err = decode(value)
	return e, err
}

// messages reads all that a stream has now, one by one.
func (r *rig) messages(stream string) (messages []*jetstream.RawStreamMsg, err error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	s, err := r.js.Stream(ctx, stream)
	if err != nil {
		return nil, err
	}
	state := s.CachedInfo().State
	for n := state.FirstSeq; n <= state.LastSeq; n++ {
		m, err := s.GetMsg(ctx, n)
		if err != nil {
			return nil, fmt.Errorf("message %d of %s: %w", n, stream, err)
		}
		messages = append(messages, m)
	}
	return messages, nil
}

// ofMessage reads a message by the NATS binding.
func ofMessage(m *jetstream.RawStreamMsg) (*event, error) {
	headers := map[string]string{}
	for name, values := range m.Header {
		if len(values) != 1 {
			return nil, fmt.Errorf("header %s is there %d times", name, len(values))
		}
		if !strings.HasPrefix(name, "Nats-") {
			headers[name] = values[0]
		}
	}
	return bound(headers, "ce-", m.Data, unescape)
}

// unescape takes percent-encoding off, and refuses what should have it or should not.
func unescape(s string) (string, error) {
	plain, err := url.PathUnescape(s)
	if err != nil {
		return "", err
	}
	if again := escape(plain); again != s {
		return "", fmt.Errorf("%q should be %q", s, again)
	}
	return plain, nil
}

// escape is the percent-encoding of the NATS binding.
func escape(plain string) string {
	var s strings.Builder
	for _, b := range []byte(plain) {
		if b <= ' ' || b > '~' || b == '"' || b == '%' {
			fmt.Fprintf(&s, "%%%02X", b)
			continue
		}
		s.WriteByte(b)
	}
	return s.String()
}
