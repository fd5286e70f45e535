// SPDX-License-Identifier: Apache-2.0

package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/internal/tail"
	"github.com/kube-eventbridge/kube-eventbridge/internal/tail/tailtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a cluster in memory.
type fake struct {
	mu     sync.Mutex
	topics map[string]*fakeTopic
	// away is what everything fails with, broken what fetches from a partition fail with.
	away   error
	broken map[place]error
	// fetches, asked (for times) and given (records) count; onFetch is called before a fetch is answered.
	fetches, asked, given int
	onFetch               func(at place)
	// busy counts the fetches that are under way, most the most of them at a time. A fetch takes a while, and a while
	// more to notice that it is not wanted.
	busy, most int
	while      time.Duration
	// committed has what groups have committed, by group and partition.
	committed map[string]int64
}

type fakeTopic struct {
	id         string
	partitions []*fakePartition
}

// fakePartition has records from first up to next, some of which may have been compacted away.
type fakePartition struct {
	first, next int64
	records     []*kafka.Record
}

func newFake() *fake {
	return &fake{topics: map[string]*fakeTopic{}, broken: map[place]error{}, committed: map[string]int64{}}
}

func (f *fake) topic(name, id string, partitions int) *fake {
	t := &fakeTopic{id: id}
	for range partitions {
		t.partitions = append(t.partitions, &fakePartition{})
	}
	f.change(func() { f.topics[name] = t })
	return f
}

func (f *fake) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// put appends a record.
func (f *fake) put(topic string, partition int, r kafka.Record) *fake {
	f.change(func() {
		p := f.topics[topic].partitions[partition]
		r.Offset = p.next
		p.next++
		p.records = append(p.records, &r)
	})
	return f
}

// Topics implements [catalog].
func (f *fake) Topics(context.Context) (map[string]int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	counts := map[string]int{}
	for name, t := range f.topics {
		counts[name] = len(t.partitions)
	}
	return counts, f.away
}

// Incarnation implements [catalog].
func (f *fake) Incarnation(_ context.Context, topic string) (cluster, id string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch t := f.topics[topic]; {
	case f.away != nil:
		return "", "", f.away
	case t == nil:
		return "", "", fmt.Errorf("ask for the id of topic %s: %w", topic, kafka.ErrNoTopic)
	default:
		return "cluster", t.id, nil
	}
}

// Bounds implements [offsets].
func (f *fake) Bounds(_ context.Context, topic string, partitions int) (map[int32]kafka.Bounds, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away != nil {
		return nil, f.away
	}
	bounds := map[int32]kafka.Bounds{}
	for n := range partitions {
		p := f.topics[topic].partitions[n]
		bounds[int32(n)] = kafka.Bounds{First: p.first, Next: p.next}
	}
	return bounds, nil
}

// Since implements [offsets].
func (f *fake) Since(_ context.Context, topic string, partition int32, t time.Time) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	for _, r := range f.topics[topic].partitions[partition].records {
		if !r.Time.Before(t) {
			return r.Offset, f.away
		}
	}
	return -1, f.away
}

// Fetch implements [fetcher]. At the end it waits half a second, as brokers do.
func (f *fake) Fetch(
	ctx context.Context, topic string, partition int32, offset int64, do func(*kafka.Record) error,
) (next, end int64, err error) {
	at := place{topic, partition}
	f.change(func() { f.busy++; f.most = max(f.most, f.busy) })
	defer func() { f.change(func() { f.busy-- }) }()
	if f.while > 0 {
		defer func() { _ = pause.For(context.WithoutCancel(ctx), f.while) }()
	}
	for waited := time.Duration(0); ; waited += 10 * time.Millisecond {
		records, end, err := f.answer(at, offset)
		if err != nil {
			return offset, 0, fmt.Errorf("fetch from %s/%d: %w", topic, partition, err)
		}
		if len(records) == 0 && waited < 500*time.Millisecond && offset >= end {
			if err := pause.For(ctx, 10*time.Millisecond); err != nil {
				return offset, end, err
			}
			continue
		}
		for _, r := range records {
			if err := do(r); err != nil {
				return offset, end, err
			}
			f.change(func() { f.given++ })
			offset = r.Offset + 1
		}
		if len(records) < fakeAnswer {
			offset = max(offset, end)
		}
		return offset, end, nil
	}
}

// FetchAtMost implements [fetcher]. It counts bytes of values only.
func (f *fake) FetchAtMost(
	ctx context.Context, topic string, partition int32, offset, most int64, do func(*kafka.Record) error,
) (next, end int64, err error) {
	full := errors.New("full")
	size := int64(0)
	next, end, err = f.Fetch(ctx, topic, partition, offset, func(r *kafka.Record) error {
		if size > 0 && size+int64(len(r.Value)) > most {
			return full
		}
		size += int64(len(r.Value))
		return do(r)
	})
	if errors.Is(err, full) {
		err = nil
	}
	return next, end, err
}

// CommitOffsets implements [committer].
func (f *fake) CommitOffsets(_ context.Context, group string, next map[string]map[int32]int64) error {
	f.change(func() {
		for topic, partitions := range next {
			for partition, offset := range partitions {
				f.committed[group+" "+fmt.Sprint(place{topic, partition})] = offset
			}
		}
	})
	return f.away
}

// fakeAnswer is how many records an answer has at most.
const fakeAnswer = 500

func (f *fake) answer(at place, offset int64) (records []*kafka.Record, end int64, err error) {
	if f.onFetch != nil {
		f.onFetch(at)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fetches++
	t := f.topics[at.topic]
	switch {
	case f.away != nil:
		return nil, 0, f.away
	case f.broken[at] != nil:
		return nil, 0, f.broken[at]
	case t == nil || int(at.number) >= len(t.partitions):
		return nil, 0, kafkago.UnknownTopicOrPartition
	}
	p := t.partitions[at.number]
	if offset < p.first || offset > p.next {
		return nil, 0, kafkago.OffsetOutOfRange
	}
	i, _ := slices.BinarySearchFunc(p.records, offset, func(r *kafka.Record, o int64) int { return int(r.Offset - o) })
	return p.records[i:min(len(p.records), i+fakeAnswer)], p.next, nil
}

// epoch is when the tests' records begin.
var epoch = time.Date(2026, 11, 20, 14, 30, 0, 0, time.UTC)

func at(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }

// event is the record of one of the object shop/<name> that was stored some seconds after the epoch.
func change(op event.Op, name string, version, replicas, seconds int) kafka.Record {
	return record(seconds, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas), map[string]string{
		"type": "io.kube-eventbridge.resource." + string(op) + ".v1", "id": fmt.Sprintf("u-%s.%d", name, version),
		"name":    name,
		"subject": "shop/" + name, "objectuid": "u-" + name, "resourceversion": fmt.Sprint(version), "namespace": "shop",
		"partitionkey": "east/apps/deployments/shop/" + name,
	})
}

// record has attributes beside those that all have here. Its key is the partitionkey.
func record(seconds int, data string, with map[string]string) kafka.Record {
	as := map[string]string{
		"specversion": "1.0", "source": "/clusters/east/apis/apps/v1/deployments", "pipeline": "audit", "reason": "watch",
		"payload":      "object",
		"fieldmanager": "kubectl", "time": "2026-11-20T14:30:04Z", "recordedtime": "2026-11-20T14:30:05.250Z",
	}
	maps.Copy(as, with)
	r := kafka.Record{
		Key: []byte(as["partitionkey"]), Value: []byte(data), Time: at(seconds),
		Headers: []kafka.Header{{Name: "content-type", Value: []byte("application/json")}},
	}
	for name, value := range as {
		r.Headers = append(r.Headers, kafka.Header{Name: "ce_" + name, Value: []byte(value)})
	}
	return r
}

// marker is one of the resource.
func marker(op event.Op, name string, seconds int) kafka.Record {
	return record(seconds, `{"namespace":"","labelSelector":"","fieldSelector":""}`, map[string]string{
		"type": "io.kube-eventbridge.stream." + string(op) + ".v1", "id": string(op) + ".1", "payload": "marker",
		"partitionkey": "east/apps/deployments/_/" + name, "resourceversion": "1",
	})
}

// log returns the log of a topic of the fake.
func (f *fake) log(t *testing.T, topic string, notice func(string)) *Log {
	t.Helper()
	what := must.Get(parse(topic))(t)
	return newLog(Config{Brokers: []string{"b:9092"}, Topic: topic, Notice: notice}, what, f, func() {})
}

// tail runs until the test or stop ends it. It is for a bubble of synctest.
func (f *fake) tail(t *testing.T, topic string, cfg tail.Config) (s *tailtest.Screen, stop func()) {
	t.Helper()
	s = new(tailtest.Screen)
	return s, s.Tail(t, f.log(t, topic, s.Notice), cfg, func() {})
}

// read shows what topic t has without following it.
func (f *fake) read(t *testing.T, span event.Span, want ...string) *tailtest.Screen {
	t.Helper()
	var s *tailtest.Screen
	synctest.Test(t, func(t *testing.T) {
		s, _ = f.tail(t, "t", tail.Config{Span: span})
		wait(t, time.Minute)
		ended, err := s.End()
		require.True(t, ended, "ended")
		assert.NoError(t, err, "ended")
		expect(t, s, want...)
	})
	return s
}

func expect(t *testing.T, s *tailtest.Screen, want ...string) {
	t.Helper()
	if got, want := s.Text(), strings.Join(want, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s\nit said\n%s", got, want, s.Said())
	}
}

func expectSaid(t *testing.T, s *tailtest.Screen, want ...string) {
	t.Helper()
	if got, want := s.Said(), strings.Join(want, "\n"); got != want {
		t.Errorf("it said\n%s\nwant\n%s", got, want)
	}
}

// wait lets a bubble's time pass.
func wait(t *testing.T, d time.Duration) {
	t.Helper()
	require.NoError(t, pause.For(t.Context(), d))
	synctest.Wait()
}

var beginning = event.Start{Beginning: true}

func TestCheckTopic_says_what_is_valid(t *testing.T) {
	for _, good := range []string{
		"kubernetes", "k8s.{cluster}.{resource}", "{pipeline}", "A_b-9",
		strings.Repeat("a", 249),
	} {
		assert.NoError(t, CheckTopic(good), good)
	}
	for _, bad := range []string{"", ".", "..", "a b", "a/b", "k8s.{cluster", "a}", "ä", strings.Repeat("a", 250)} {
		if err := CheckTopic(bad); err == nil || !strings.HasPrefix(err.Error(),
			`"`+bad+`" is not the name of a topic; use letters`) {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

func TestPattern_fits_what_its_placeholders_stand_for(t *testing.T) {
	for text, c := range map[string]struct{ fit, others string }{
		"kubernetes":         {"kubernetes", "kubernetes2 xkubernetes"},
		"k8s.{a}.{b}":        {"k8s.x.y k8s.x.y.z", "k8s.x k8s.. k8sxxxy"},
		"{pipeline}-{group}": {"a-b a-b-c", "- a- -b ab"},
	} {
		p := must.Get(parse(text))(t)
		for _, topic := range strings.Fields(c.fit) {
			assert.True(t, p.fits.MatchString(topic), "%s does not fit %s", topic, text)
		}
		for _, topic := range strings.Fields(c.others) {
			assert.False(t, p.fits.MatchString(topic), "%s fits %s", topic, text)
		}
		assert.Equal(t, (text == "kubernetes"), p.only, text)
	}
}

func TestCheckBroker_says_what_is_valid(t *testing.T) {
	for _, good := range []string{"localhost:9092", "10.0.0.1:1", "[::1]:9092", "kafka-0.kafka_x:65535"} {
		assert.NoError(t, CheckBroker(good), good)
	}
	for _, bad := range []string{
		"", "localhost", "localhost:", ":9092", "localhost:0", "localhost:x",
		"kafka://localhost:9092", "a b:1", "me:hidden@localhost:9092",
	} {
		if err := CheckBroker(bad); err == nil || !strings.Contains(err.Error(), "write host:port, such as localhost:9092") ||
			strings.Contains(err.Error(), "hidden") {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

func TestNew_says_what_is_wrong_and_speaks_to_no_broker(t *testing.T) {
	for want, c := range map[string]Config{
		`"a b" is not the name of a topic`: {Brokers: []string{"b:1"}, Topic: "a b"},
		"connect to b:1,c:2: tls: CA: open /none": {
			Brokers: []string{"b:1", "c:2"}, Topic: "t",
			TLS: kafka.TLS{CAFile: "/none"},
		},
	} {
		_, err := New(c)
		assert.True(t, err != nil && strings.HasPrefix(err.Error(), want), "got %v, want %s", err, want)
	}
	for _, topic := range []string{"t", "t.{resource}"} {
		l := must.Get(New(Config{Brokers: []string{"b:1"}, Topic: topic}))(t)
		l.Close()
	}
}
