// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
)

const (
	contentJSON       = "application/json"
	contentStructured = "application/cloudevents+json"
)

// raw reads a log message by message, with a client that knows nothing of CloudEvents, and what it says by the letter
// of the bindings.
func (r *world) raw(log string) (events []*event, err error) {
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

func (r *world) rawTopic(topic string) (events []*event, err error) {
	records, err := r.records(topic)
	for i := range records {
		e, err := ofRecord(&records[i])
		if err != nil {
			return nil, fmt.Errorf("offset %d of partition %d: %w", records[i].Sequence, records[i].Partition, err)
		}
		events = append(events, e)
	}
	return events, err
}

func (r *world) rawStream(stream string) (events []*event, err error) {
	messages, err := r.messages(stream)
	for i := range messages {
		e, err := ofMessage(&messages[i])
		if err != nil {
			return nil, fmt.Errorf("message %s: %w", messages[i].Subject, err)
		}
		events = append(events, e)
	}
	return events, err
}

// records reads all that a topic has now, of each partition in order.
func (r *world) records(topic string) ([]rig.Message, error) {
	log, err := rig.KafkaLog(topic, r.kafka.Addresses())
	if err != nil {
		return nil, err
	}
	defer log.Close()
	ctx, cancel := context.WithTimeout(r.t.Context(), rig.Patience())
	defer cancel()
	return log.Read(ctx)
}

// messages reads all that a stream has now.
func (r *world) messages(stream string) ([]rig.Message, error) {
	return rig.NATSLog(r.js, stream).Read(r.t.Context())
}

// ofRecord reads a record by the Kafka binding. What is not as the binding has it, or more than it needs, is an error.
func ofRecord(r *rig.Message) (*event, error) {
	if r.Data == nil {
		if len(r.Header) > 0 {
			return nil, errors.New("a tombstone has headers")
		}
		return &event{gone: r.Key}, nil
	}
	headers, err := single(r.Header)
	if err != nil {
		return nil, err
	}
	e, err := bound(headers, "ce_", r.Data, func(s string) (string, error) { return s, nil })
	if err == nil && e.attributes["partitionkey"] != r.Key {
		err = fmt.Errorf("the key is %q, the partitionkey %q", r.Key, e.attributes["partitionkey"])
	}
	return e, err
}

// single returns headers of which each is there once, without those of NATS itself.
func single(header map[string][]string) (map[string]string, error) {
	headers := map[string]string{}
	for name, values := range header {
		if len(values) != 1 {
			return nil, fmt.Errorf("header %s is there %d times", name, len(values))
		}
		if !strings.HasPrefix(name, "Nats-") {
			headers[name] = values[0]
		}
	}
	return headers, nil
}

// bound reads an event from headers with a prefix, or from a structured value. Of other headers there is only the
// content type.
func bound(
	headers map[string]string, prefix string, value []byte, unescape func(string) (string, error),
) (*event, error) {
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

// ofMessage reads a message by the NATS binding.
func ofMessage(m *rig.Message) (*event, error) {
	headers, err := single(m.Header)
	if err != nil {
		return nil, err
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
