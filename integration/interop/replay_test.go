// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// The topics with one partition, and the streams, whose messages are not the bridge's. Of one the beginning is removed.
const (
	replayed = "replayed"
	trimmed  = "trimmed"
)

// repeat returns a log that repeats itself, and what a consumer has to make of it. Everything comes twice. Then an
// object changes in another epoch, and something older follows. It is deleted, twice. The state of another one is
// refused, and is published behind that, twice. Resyncs follow: one that is not complete, one of which the beginning is
// missing, and one that tells of a single object.
func repeat(log []*event) (repeated, once []*event) {
	for _, e := range log {
		if len(text(e.data)) < 100_000 {
			repeated = append(repeated, e)
		}
	}
	repeated = append(repeated, repeated...)
	var object, told *event
	for _, e := range repeated {
		switch {
		case e.attributes["name"] == "was-there-before":
			object = e
		case e.attributes["name"] == "settings.v1.example" && e.op() != "deleted":
			told = e
		}
	}
	deleted := strings.Replace(object.attributes["type"], "updated", "deleted", 1)
	later := with(object, "id", "later", "sequence", "9000000000.00000000000000000002.0")
	end := with(later, "type", deleted, "id", "end", "sequence", "9000000000.00000000000000000002.1")
	healed := with(object, "partitionkey", "another/core/configmaps/_/healed", "id", "healed",
		"sequence", "9000000000.00000000000000000005.0")
	rejected := strings.Replace(object.attributes["type"], "updated", "rejected", 1)
	refused := with(healed, "id", "refused", "type", rejected)
	delete(refused.attributes, "payload")
	repeated = append(repeated, later, object,
		with(later, "id", "older", "sequence", "9000000000.00000000000000000001.0"), end, later, end,
		refused, refused, with(healed, "id", "patch", "payload", "merge-patch"),
		healed, with(healed, "id", "healed again"),
		resync(object, "started", 5, false), resync(object, "completed", 5, false),
		resync(object, "completed", 6, true),
		resync(object, "started", 7, false), told, resync(object, "completed", 7, true),
		last(object))
	return repeated, handle(repeated)
}

// last is an event of another object, which nothing else in the log is about.
func last(e *event) *event {
	return with(e, "partitionkey", "another/core/configmaps/_/object", "id", "last")
}

// resync returns a marker of the stream of an object.
func resync(of *event, end string, n int, complete bool) *event {
	e := with(of, "type", "io.kube-eventbridge.stream.resync-"+end+".v1", "payload", "marker",
		"id", fmt.Sprintf("resync-%s.%d", end, n), "partitionkey", cluster+"/core/configmaps/_/_resync")
	for _, name := range []string{
		"subject", "namespace", "name", "objectuid", "resource", "sequence", "reason", "fieldmanager",
	} {
		delete(e.attributes, name)
	}
	data := map[string]any{
		"namespace": namespace, "labelSelector": "", "fieldSelector": "", "n": json.Number(fmt.Sprint(n)),
	}
	if end == "completed" {
		data["objects"], data["complete"] = json.Number("1"), complete
	}
	e.data = data
	return e
}

// with returns a copy with other attributes.
func with(e *event, pairs ...string) *event {
	c := &event{attributes: maps.Clone(e.attributes), data: e.data}
	for i := 0; i < len(pairs); i += 2 {
		c.attributes[pairs[i]] = pairs[i+1]
	}
	return c
}

// handle is the rule of docs/events.md, and the sweep at the end of a complete resync, for one partition and a
// consumer that stores its place with its state.
func handle(log []*event) (handled []*event) {
	remembered, unknown := map[string]string{}, map[string]bool{}
	told := map[string]map[string]bool{} // by number of the resync
	for _, e := range log {
		key, sequence := e.attributes["partitionkey"], e.attributes["sequence"]
		data, _ := e.data.(map[string]any)
		switch {
		case e.gone != "": // a null record
			continue
		case e.op() == "resync-started":
			told[fmt.Sprint(data["n"])] = map[string]bool{}
		case e.op() == "resync-completed":
			since, begun := told[fmt.Sprint(data["n"])]
			if !begun || data["complete"] != true {
				break
			}
			for _, key := range slices.Sorted(maps.Keys(remembered)) {
				if !since[key] && strings.HasPrefix(key, cluster+"/core/configmaps/"+namespace+"/") &&
					!strings.HasSuffix(remembered[key], ".1") {
					handled = append(handled, &event{gone: key})
					delete(remembered, key)
				}
			}
		case sequence != "":
			for _, keys := range told {
				keys[key] = true
			}
			whole := e.attributes["payload"] == "object" && e.attributes["datasize"] == ""
			if heals := unknown[key] && whole; sequence < remembered[key] || sequence == remembered[key] && !heals {
				continue
			}
			remembered[key], unknown[key] = sequence, e.op() == "rejected"
		}
		handled = append(handled, e)
	}
	return handled
}

// store writes events in binary mode to the kind of broker that a log is on, and returns where.
func (p *published) store(log, name string, events []*event) (target string) {
	p.t.Helper()
	if onKafka(log) {
		p.storeTopic(name, events)
		return name
	}
	for _, e := range events {
		_, err := p.js.PublishMsg(p.t.Context(), message(name, e))
		require.NoError(p.t, err)
	}
	return strings.ToUpper(name)
}

// create makes a topic or a stream for store.
func (p *published) create(log, name string) {
	p.t.Helper()
	if onKafka(log) {
		require.NoError(p.t, p.kafka.CreateTopic(p.t.Context(), name, 1, 1, nil))
		return
	}
	stream := jetstream.StreamConfig{Name: strings.ToUpper(name), Subjects: []string{name}}
	_, err := p.js.CreateStream(p.t.Context(), stream)
	require.NoError(p.t, err)
}

// remove removes what create has made.
func (p *published) remove(log, name string) {
	p.t.Helper()
	if !onKafka(log) {
		require.NoError(p.t, p.js.DeleteStream(p.t.Context(), strings.ToUpper(name)))
		return
	}
	client := must.Get(kgo.NewClient(kgo.SeedBrokers(p.kafka.Addresses()...)))(p.t)
	defer client.Close()
	admin := kadm.NewClient(client)
	require.NoError(p.t, must.Get(admin.DeleteTopics(p.t.Context(), name))(p.t).Error())
	rig.Try(p.t, "the topic to be gone", func() error {
		topics, err := admin.ListTopics(p.t.Context(), name)
		if err == nil && topics.Has(name) {
			err = fmt.Errorf("it is there: %v", topics.Names())
		}
		return err
	})
}

// trim removes the first n messages of what store has written.
func (p *published) trim(log, name string, n int) {
	p.t.Helper()
	if onKafka(log) {
		client := must.Get(kgo.NewClient(kgo.SeedBrokers(p.kafka.Addresses()...)))(p.t)
		defer client.Close()
		var before kadm.Offsets
		before.AddOffset(name, 0, int64(n), -1)
		answers := must.Get(kadm.NewClient(client).DeleteRecords(p.t.Context(), before))(p.t)
		require.NoError(p.t, answers.Error())
		return
	}
	stream := must.Get(p.js.Stream(p.t.Context(), strings.ToUpper(name)))(p.t)
	require.NoError(p.t, stream.Purge(p.t.Context(), jetstream.WithPurgeSequence(uint64(n)+1)))
}

func (p *published) storeTopic(name string, events []*event) { p.storeIn(name, 0, events) }

// storeIn writes events to a partition of a topic.
func (p *published) storeIn(name string, partition int32, events []*event) {
	p.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(p.kafka.Addresses()...), kgo.DefaultProduceTopic(name),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(p.t, err)
	defer client.Close()
	var records []*kgo.Record
	for _, e := range events {
		r := record(e)
		r.Partition = partition
		records = append(records, r)
	}
	require.NoError(p.t, client.ProduceSync(p.t.Context(), records...).FirstErr())
}

// saved returns an error until an example's file says that it has handled all messages of a log with one partition.
func saved(log, file string, messages int) error {
	if !onKafka(log) {
		messages++ // NATS counts from 1
	}
	return savedAll(file, map[string]int{"0": messages})
}

// savedAll returns an error until an example's file says which message of each partition is next.
func savedAll(file string, next map[string]int) error {
	var state struct{ Next map[string]int }
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &state)
	}
	if err == nil && !maps.Equal(state.Next, next) {
		err = fmt.Errorf("next is %v, want %v", state.Next, next)
	}
	return err
}

// goesOn checks that an example applies what is newer, goes on from its state after it was killed, and begins again
// with its sequences, and without its places, if the log was made again.
func (p *published) goesOn(t *testing.T, c client, log string, repeated, once []*event) {
	p = &published{world: p.in(t), logs: p.logs}
	name := replayed + "-" + c.name
	p.create(log, name)
	target := p.store(log, name, repeated)
	file := stateFile(t)
	got := readUntil(t, c.on(t, p.world, log, target, "a", file), len(once), func() error {
		return saved(log, file, len(repeated))
	})
	report(t, differences(once, got))
	object := repeated[len(repeated)-1]
	next := with(object, "id", "next", "sequence", "9000000000.00000000000000000003.0")
	p.store(log, name, []*event{object, next})
	got = readUntil(t, c.on(t, p.world, log, target, "b", file), 1, func() error {
		return saved(log, file, len(repeated)+2)
	})
	report(t, differences([]*event{next}, got))
	p.remove(log, name)
	p.create(log, name)
	again := with(object, "id", "again", "sequence", "9000000000.00000000000000000004.0")
	started, completed := resync(object, "started", 9, false), resync(object, "completed", 9, true)
	p.store(log, name, []*event{next, again, started, completed})
	gone := &event{gone: cluster + "/core/configmaps/" + namespace + "/settings.v1.example"}
	want := []*event{again, started, gone, completed}
	report(t, differences(want, read(t, c.on(t, p.world, log, target, "d", file), len(want))))
}

// spreads checks that an object that was deleted stays so if an older event of it is in another partition, where its
// key was before the topic got more of them. That partition is much longer, so that most clients read the end first.
func (p *published) spreads(t *testing.T, c client, log []*event) {
	p = &published{world: p.in(t), logs: p.logs}
	name := "spread-" + c.name
	require.NoError(t, p.kafka.CreateTopic(t.Context(), name, 2, 1, nil))
	object := log[slices.IndexFunc(log, func(e *event) bool { return e.attributes["name"] == "was-there-before" })]
	added := with(object, "id", "added", "sequence", "1.00000000000000000001.0")
	deleted := with(object, "id", "deleted", "sequence", "1.00000000000000000002.1",
		"type", strings.Replace(object.attributes["type"], object.op(), "deleted", 1))
	filler := with(object)
	filler.data = map[string]any{"filler": strings.Repeat("0123456789", 50_000)}
	var first []*event
	for i := range 20 {
		at := fmt.Sprintf("1.%020d.0", i+1)
		first = append(first, with(filler, "id", at, "sequence", at, "partitionkey", "another/core/configmaps/_/filler"))
	}
	p.storeIn(name, 0, append(first, added))
	p.storeIn(name, 1, []*event{deleted})
	file := stateFile(t)
	args := c.on(t, p.world, "kafka-binary", name, "a", file)
	got := readUntil(t, args, len(first)+1, func() error {
		return savedAll(file, map[string]int{"0": len(first) + 1, "1": 1})
	})
	var of []string
	for _, e := range got {
		if e.attributes["partitionkey"] == object.attributes["partitionkey"] {
			of = append(of, e.attributes["id"])
		}
	}
	require.NotEmpty(t, of)
	require.Equal(t, "deleted", of[len(of)-1], "it has applied %v", of)
}

// notices checks that an example says what to do about a log that lacks its beginning, and reads what it has.
func (p *published) notices(t *testing.T, c client, log, target string, left []*event) {
	printed, said, err := lines(t, c.on(t, p.world, log, target, "c", stateFile(t)), len(left), nil)
	require.NoError(t, err, "it has printed %s", printed)
	require.Contains(t, said, "kube-eventbridge resync")
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

func message(subject string, e *event) *nats.Msg {
	m := nats.NewMsg(subject)
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
