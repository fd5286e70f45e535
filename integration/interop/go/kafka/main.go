// SPDX-License-Identifier: Apache-2.0

// Command kafka prints what is new in a topic, one line of JSON each. Arguments: brokers, topic, consumer group.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"strings"

	"github.com/cloudevents/sdk-go/v2/binding/spec"
	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kube-eventbridge/kube-eventbridge/integration/interop/go/versions"
)

func main() {
	brokers, topic, group := strings.Split(os.Args[1], ","), os.Args[2], os.Args[3]
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group), kgo.AutoCommitMarks())
	if err != nil {
		log.Fatal(err)
	}
	var handled versions.Versions
	for out := json.NewEncoder(os.Stdout); ; {
		fetches := client.PollFetches(context.Background())
		for _, e := range fetches.Errors() {
			log.Print(e.Err)
		}
		for _, r := range fetches.Records() {
			if err := handle(r, &handled, out); err != nil {
				log.Fatal(err)
			}
			client.MarkCommitRecords(r) // it is handled, so its offset may be committed
		}
	}
}

func handle(r *kgo.Record, handled *versions.Versions, out *json.Encoder) error {
	if r.Value == nil { // a tombstone: whatever has this key is gone
		return out.Encode(map[string]string{"gone": string(r.Key)})
	}
	e, err := read(r)
	if err != nil || !handled.IsNew(e) {
		return err
	}
	return out.Encode(e)
}

// The SDK's reader of headers.
var binary = spec.WithPrefix("ce_").Version("1.0")

func read(r *kgo.Record) (event.Event, error) {
	e := event.New()
	for _, h := range r.Headers {
		if h.Key == "content-type" && string(h.Value) == event.ApplicationCloudEventsJSON {
			return e, json.Unmarshal(r.Value, &e)
		}
		if err := binary.SetAttribute(e.Context, h.Key, string(h.Value)); err != nil {
			return e, err
		}
	}
	return e, e.SetData(event.ApplicationJSON, json.RawMessage(r.Value)) // the data of every event is JSON
}
