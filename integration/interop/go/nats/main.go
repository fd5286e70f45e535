// SPDX-License-Identifier: Apache-2.0

// Command nats prints what applies in a JetStream stream, one line of JSON each. Arguments: server, stream, file of the
// state.
package main

import (
	"context"
	"encoding/json"
	"log"
	"net/url"
	"os"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding/spec"
	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/integration/interop/go/state"
)

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, server, stream, file string) error {
	st, err := state.Load(file)
	if err != nil {
		return err
	}
	conn, err := nats.Connect(server)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	for out := json.NewEncoder(os.Stdout); ; {
		messages, err := batch(ctx, js, stream, st)
		if err != nil {
			return err
		}
		for m := range messages.Messages() {
			if err := handle(m, st, out); err != nil {
				return err
			}
		}
		if err := st.Save(); err != nil {
			return err
		}
	}
}

// batch asks for messages from where the state is. Each batch has a consumer of its own, so nothing needs to be
// acknowledged.
func batch(
	ctx context.Context, js jetstream.JetStream, stream string, st *state.State,
) (jetstream.MessageBatch, error) {
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return nil, err
	}
	info := s.CachedInfo()
	first := max(info.State.FirstSeq, 1)
	if info.Config.MaxMsgsPerSubject == 1 {
		first = 1 // what later messages of a subject have replaced is not missing
	}
	start := st.Resume("0", int64(first), int64(info.State.LastSeq)+1, info.Created.String())
	consumer, err := js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: uint64(start),
	})
	if err != nil {
		return nil, err
	}
	return consumer.Fetch(1000, jetstream.FetchMaxWait(5*time.Second))
}

func handle(m jetstream.Msg, st *state.State, out *json.Encoder) error {
	e, err := read(m)
	if err != nil {
		return err
	}
	at, err := m.Metadata()
	if err != nil {
		return err
	}
	applies, gone, err := st.Handle(e, "0", int64(at.Sequence.Stream))
	for _, key := range gone {
		if err := out.Encode(map[string]string{"gone": key}); err != nil {
			return err
		}
	}
	if err != nil || !applies {
		return err
	}
	return out.Encode(e)
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
