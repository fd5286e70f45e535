// SPDX-License-Identifier: Apache-2.0

// Command kafka prints what applies in a topic, one line of JSON each. Arguments: brokers, topic, file of the state.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding/spec"
	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kube-eventbridge/kube-eventbridge/integration/interop/go/state"
)

// retry is how long a request waits for a partition that has no leader.
const retry = 250 * time.Millisecond

func main() {
	if err := run(context.Background(), strings.Split(os.Args[1], ","), os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, brokers []string, topic, file string) error {
	st, err := state.Load(file)
	if err != nil {
		return err
	}
	// What lies outside the log is an error: the next start says what that means.
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	if err != nil {
		return err
	}
	defer client.Close()
	places, err := resume(ctx, client, topic, st)
	if err != nil {
		return err
	}
	client.SetOffsets(map[string]map[int32]kgo.EpochOffset{topic: places})
	for out := json.NewEncoder(os.Stdout); ; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for _, r := range fetches.Records() {
			if _, known := st.Next[strconv.Itoa(int(r.Partition))]; !known { // a partition that was added
				if _, err := resume(ctx, client, topic, st); err != nil {
					return err
				}
			}
			if err := handle(r, st, out); err != nil {
				return err
			}
		}
		if err := st.Save(); err != nil {
			return err
		}
	}
}

// resume looks which part of the topic is there, and returns where to read on in each partition.
func resume(
	ctx context.Context, client *kgo.Client, topic string, st *state.State,
) (map[int32]kgo.EpochOffset, error) {
	admin := kadm.NewClient(client)
	first, err := list(ctx, admin.ListStartOffsets, topic)
	if err != nil {
		return nil, err
	}
	end, err := list(ctx, admin.ListEndOffsets, topic)
	if err != nil {
		return nil, err
	}
	places := map[int32]kgo.EpochOffset{}
	for p, f := range first[topic] {
		place := st.Resume(strconv.Itoa(int(p)), f.Offset, end[topic][p].Offset, "")
		places[p] = kgo.EpochOffset{Epoch: -1, Offset: place}
	}
	return places, nil
}

// list asks for offsets until all partitions have a leader that answers.
func list(
	ctx context.Context, offsets func(context.Context, ...string) (kadm.ListedOffsets, error), topic string,
) (kadm.ListedOffsets, error) {
	for {
		all, err := offsets(ctx, topic)
		if shards, ok := errors.AsType[*kadm.ShardErrors](err); ok {
			err = shards.Errs[0].Err
		} else if err == nil {
			err = all.Error()
		}
		if !kerr.IsRetriable(err) {
			return all, err
		}
		select {
		case <-time.After(retry):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func handle(r *kgo.Record, st *state.State, out *json.Encoder) error {
	partition := strconv.Itoa(int(r.Partition))
	if r.Value == nil { // a null record, for Kafka's cleaner
		st.Passes(partition, r.Offset)
		return nil
	}
	e, err := read(r)
	if err != nil {
		return err
	}
	applies, gone, err := st.Handle(e, partition, r.Offset)
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
