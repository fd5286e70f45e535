// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"encoding/json"
	"maps"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// replayed is a topic with one partition, and a stream, whose messages are not the bridge's.
const replayed = "replayed"

// repeat returns a log as it never is and as a consumer that begins again may meet it, and what a consumer has to make
// of it. Everything comes twice. Then etcd is restored, and an object changes in another epoch at a lower version.
// Something older follows. The object is deleted, and its deletion and its last state come again.
func repeat(log []*event) (repeated, once []*event) {
	for _, e := range log {
		if len(text(e.data)) < 100_000 {
			repeated = append(repeated, e)
		}
	}
	repeated = append(repeated, repeated...)
	var object *event
	for _, e := range repeated {
		if e.attributes["name"] == "was-there-before" {
			object = e
		}
	}
	deleted := strings.Replace(object.attributes["type"], "updated", "deleted", 1)
	const epoch = "9999999998"
	restored := with(object, "id", "restored", "sequence", epoch+".00000000000000000002.0")
	older := with(object, "id", "older", "sequence", epoch+".00000000000000000001.0")
	gone := with(object, "type", deleted, "id", "deleted", "sequence", epoch+".00000000000000000002.1")
	end := with(object, "partitionkey", "another/object", "id", "end")
	repeated = append(repeated, restored, object, older, gone, restored, gone, end)
	return repeated, handle(repeated)
}

// with returns a copy with other attributes.
func with(e *event, pairs ...string) *event {
	c := &event{attributes: maps.Clone(e.attributes), data: e.data}
	for i := 0; i < len(pairs); i += 2 {
		c.attributes[pairs[i]] = pairs[i+1]
	}
	return c
}

// handle is the rule of docs/events.md.
func handle(log []*event) (handled []*event) {
	last := map[string]string{}
	for _, e := range log {
		key, sequence := e.attributes["pipeline"]+" "+e.attributes["partitionkey"], e.attributes["sequence"]
		switch {
		case e.gone != "" || e.marker():
			handled = append(handled, e)
		case sequence > last[key]:
			handled, last[key] = append(handled, e), sequence
		}
	}
	return handled
}

// store writes events in binary mode to the kind of broker that a log is on, and returns where.
func (p *published) store(log string, events []*event) (target string) {
	p.t.Helper()
	if onKafka(log) {
		p.storeTopic(events)
		return replayed
	}
	stream := strings.ToUpper(replayed)
	_, err := p.js.CreateStream(p.t.Context(), jetstream.StreamConfig{Name: stream, Subjects: []string{replayed}})
	require.NoError(p.t, err)
	for _, e := range events {
		_, err := p.js.PublishMsg(p.t.Context(), message(e))
		require.NoError(p.t, err)
	}
	return stream
}

func (p *published) storeTopic(events []*event) {
	p.t.Helper()
	require.NoError(p.t, p.kafka.CreateTopic(p.t.Context(), replayed, 1, 1, nil))
	client, err := kgo.NewClient(kgo.SeedBrokers(p.kafka.Addresses()...), kgo.DefaultProduceTopic(replayed), kgo.ProducerBatchCompression(kgo.NoCompression()))
	require.NoError(p.t, err)
	defer client.Close()
	var records []*kgo.Record
	for _, e := range events {
		records = append(records, record(e))
	}
	require.NoError(p.t, client.ProduceSync(p.t.Context(), records...).FirstErr())
}

func record(e *event) *kgo.Record {
	r := &kgo.Record{Key: []byte(e.group())}
	if e.gone != "" {
		return r
	}
	r.Value = []byte(text(e.data))
	for name, value := range e.attributes {
		header := "ce_" + name
		if name == "datacontenttype" {
			header = "content-type"
		}
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: header, Value: []byte(value)})
	}
	return r
}

func message(e *event) *nats.Msg {
	m := nats.NewMsg(replayed)
	m.Data = []byte(text(e.data))
	for name, value := range e.attributes {
		m.Header["ce-"+name] = []string{escape(value)}
	}
	return m
}

// text is data as JSON; it cannot fail for what came from JSON.
func text(data any) string {
	b, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	return string(b)
}
