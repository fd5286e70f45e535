// SPDX-License-Identifier: Apache-2.0

// Command nats prints what is new in a JetStream stream, one line of JSON each. Arguments: server, stream, name of a durable consumer.
package main

import (
	"context"
	"encoding/json"
	"log"
	"net/url"
	"os"

	"github.com/cloudevents/sdk-go/v2/binding/spec"
	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/integration/interop/go/versions"
)

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, server, stream, durable string) error {
	conn, err := nats.Connect(server)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	consumer, err := js.CreateOrUpdateConsumer(ctx, stream, jetstream.ConsumerConfig{Durable: durable})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	var handled versions.Versions
	for out := json.NewEncoder(os.Stdout); ; {
		m, err := messages.Next()
		if err != nil {
			return err
		}
		e, err := read(m)
		if err != nil {
			return err
		}
		if handled.IsNew(e) {
			if err := out.Encode(e); err != nil {
				return err
			}
		}
		if err := m.Ack(); err != nil {
			return err
		}
	}
}

// The SDK's reader of headers.
var binary = spec.WithPrefix("ce-").Version("1.0")

func read(m jetstream.Msg) (event.Event, error) {
	e := event.New()
	if m.Headers().Get("content-type") == event.ApplicationCloudEventsJSON {
		return e, json.Unmarshal(m.Data(), &e)
	}
	for name := range m.Headers() {
		value, err := url.PathUnescape(m.Headers().Get(name)) // takes percent-encoding off
		if err != nil {
			return e, err
		}
		if err := binary.SetAttribute(e.Context, name, value); err != nil {
			return e, err
		}
	}
	return e, e.SetData(event.ApplicationJSON, json.RawMessage(m.Data())) // the data of every event is JSON
}
