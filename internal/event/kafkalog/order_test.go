// SPDX-License-Identifier: Apache-2.0

package kafkalog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/tail"
)

// messages reads topic t without a viewer.
func (f *fake) messages(t *testing.T, span event.Span) (all []event.Message) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		err := f.log(t, "t", nil).Read(t.Context(), event.Reading{
			Span:     span,
			Each:     func(_ context.Context, m event.Message) error { all = append(all, m); return nil },
			Counts:   func(event.Message) bool { return true },
			Replaced: func() {},
		})
		assert.NoError(t, err)
	})
	return all
}

// A marker is in each partition. Who follows resyncs has to know where it is in each.
func TestRead_gives_each_copy_of_a_marker_if_asked(t *testing.T) {
	for _, copies := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake().topic("t", "1", 3)
			for p := range 3 {
				f.put("t", p, record(1, `{"n":7}`, map[string]string{
					"type": "io.kube-eventbridge.stream.resync-started.v1", "id": "resync-started.0a0a0a0a.1.7",
					"payload": "marker", "partitionkey": "east/apps/deployments/_/_resync", "resourceversion": "1",
				}))
			}
			var lanes []uint16
			err := f.log(t, "t", nil).Read(t.Context(), event.Reading{
				Span: event.Span{Start: beginning}, Copies: copies, Counts: func(event.Message) bool { return true },
				Each:     func(_ context.Context, m event.Message) error { lanes = append(lanes, m.Lane); return nil },
				Replaced: func() {},
			})
			assert.NoError(t, err)
			assert.Len(t, lanes, map[bool]int{false: 1, true: 3}[copies])
		})
	}
}

func places(all []event.Message) string {
	var texts []string
	for _, m := range all {
		texts = append(texts, m.Place)
	}
	return strings.Join(texts, " ")
}

func TestRead_gives_the_past_of_all_partitions_in_the_order_of_time(t *testing.T) {
	f := newFake().topic("t", "1", 3)
	for i, p := range []int{2, 0, 0, 1, 2, 1, 0, 2, 2, 1} {
		f.put("t", p, change(event.Updated, "web", i, i, i))
	}
	got := places(f.messages(t, event.Span{Start: beginning}))
	assert.Equal(t, "2/0 0/0 0/1 1/0 2/1 1/1 0/2 2/2 2/3 1/2", got)
}

func TestRead_gives_every_record_once_and_each_partition_in_its_order(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		partitions := rapid.IntRange(1, 4).Draw(rt, "partitions")
		skewed := rapid.Bool().Draw(rt, "skewed")
		f := newFake().topic("t", "1", partitions)
		n := rapid.IntRange(0, 1500).Draw(rt, "records")
		for i := range n {
			seconds := i
			if skewed {
				seconds = rapid.IntRange(0, 10).Draw(rt, "time")
			}
			f.put("t", rapid.IntRange(0, partitions-1).Draw(rt, "partition"), change(event.Updated, "web", i, i, seconds))
		}
		all := f.messages(t, event.Span{Start: beginning})
		next := map[int32]uint64{}
		for _, m := range all {
			next[m.Partition]++
			require.Equal(rt, next[m.Partition], m.Sequence, "partition %d", m.Partition)
		}
		assert.Len(rt, all, n, "records")
		if !skewed && !slices.IsSortedFunc(all, func(a, b event.Message) int { return a.Time.Compare(b.Time) }) {
			rt.Errorf("not in the order of time: %s", places(all))
		}
	})
}

func TestRead_ends_where_each_partition_ended_when_it_began(t *testing.T) {
	f := newFake().topic("t", "1", 2)
	f.put("t", 0, change(event.Added, "a", 1, 1, 1)).put("t", 1, change(event.Added, "b", 2, 1, 2)).put("t", 0,
		change(event.Updated, "a", 3, 2, 3))
	var late atomic.Int64 // partitions are asked by a goroutine each
	f.onFetch = func(at place) {
		n := 10 + int(late.Add(1))
		f.put("t", int(at.number), change(event.Updated, "late", n, n, n))
	}
	assert.Equal(t, "0/0 1/0 0/1", places(f.messages(t, event.Span{Start: beginning})))
	assert.True(t, late.Load() != 0, "nothing came while it was read")
}

func TestRead_holds_little_of_partitions_that_are_far_ahead(t *testing.T) {
	const partitions, size = 8, 10_000
	f := newFake().topic("t", "1", partitions)
	for i := range 20_000 {
		r := kafka.Record{Key: []byte("k"), Value: make([]byte, size), Time: at(i)}
		f.put("t", i%partitions, r)
	}
	most, handed := 0, 0
	synctest.Test(t, func(t *testing.T) {
		err := f.log(t, "t", nil).Read(t.Context(), event.Reading{
			Span: event.Span{Start: beginning}, Counts: func(event.Message) bool { return true }, Replaced: func() {},
			Each: func(context.Context, event.Message) error {
				if handed%100 == 0 {
					synctest.Wait() // whatever can be fetched is
				}
				handed++
				f.change(func() { most = max(most, f.given-handed) })
				return nil
			},
		})
		require.NoError(t, err)
		assert.Equal(t, 20_000, handed, "handed over")
	})
	if held := most * size; held > budgetBytes+partitions*fakeAnswer*size/100 || held < budgetBytes/8 {
		t.Errorf("up to %d bytes were held, and the budget is %d", held, budgetBytes)
	}
}

func TestRead_asks_few_partitions_at_a_time_for_what_is_there(t *testing.T) {
	f := newFake().topic("t", "1", 100)
	f.while = 50 * time.Millisecond
	for i := range 200 {
		f.put("t", i%100, change(event.Added, "web", i, 1, i))
	}
	n := len(f.messages(t, event.Span{Start: beginning}))
	assert.True(t, n == 200 && f.most <= fetchesAtOnce, "%d messages, and %d fetches at a time", n, f.most)
}

func TestRead_leaves_out_what_has_no_value_and_what_writers_leave_for_each_other(t *testing.T) {
	f := newFake().topic("t", "1", 2)
	started := record(0, `{"producerId":1,"producerEpoch":0,"epoch":1700000000}`, map[string]string{
		"type": "io.kube-eventbridge.writer.started.v1", "id": "writer-started.1.0", "payload": "marker",
		"partitionkey": "east/_/_/_/_writer.audit",
	})
	f.put("t", 0, started).put("t", 1, started)
	f.put("t", 0, change(event.Deleted, "a", 1, 1, 1)).put("t", 0,
		kafka.Record{Key: []byte("east/apps/deployments/shop/a"), Time: at(1)})
	f.put("t", 1, change(event.Added, "b", 2, 1, 2))
	assert.Equal(t, "0/1 1/1", places(f.messages(t, event.Span{Start: beginning})))
}

func TestRead_gives_a_marker_of_all_partitions_once(t *testing.T) {
	f := newFake().topic("t", "1", 3)
	for p := range 3 {
		f.put("t", p, marker(event.SnapshotStarted, "_snapshot", 3-p))
		f.put("t", p, change(event.Added, fmt.Sprint("web-", p), p, 1, 4))
		f.put("t", p, marker(event.Gap, "_gap", 5))
	}
	for span, want := range map[event.Span]string{
		{Start: beginning}:              "2/0 0/1 1/1 2/1 0/2",
		{Start: event.Start{Last: 4}}:   "0/1 1/1 2/1 0/2", // it counts once, too
		{Start: event.Start{Last: 100}}: "2/0 0/1 1/1 2/1 0/2",
	} {
		assert.Equal(t, want, places(f.messages(t, span)), "%+v", span.Start)
	}
	f.put("t", 0, marker(event.Gap, "_gap", 6)) // twice in one partition: it is there twice
	assert.Equal(t, "2/0 0/1 1/1 2/1 0/2 0/3", places(f.messages(t, event.Span{Start: beginning})))
}

func TestRead_takes_names_of_headers_in_any_case_and_whole_events(t *testing.T) {
	f := newFake().topic("t", "1", 1)
	r := change(event.Updated, "web", 7, 3, 1)
	for i, h := range r.Headers {
		r.Headers[i].Name = strings.ToUpper(h.Name)
	}
	f.put("t", 0, r)
	whole := `{"specversion":"1.0","id":"u-web.8","type":"io.kube-eventbridge.resource.updated.v1",` +
		`"source":"/clusters/east/apis/apps/v1/deployments","subject":"shop/web","name":"web","resourceversion":"8","objectuid":"u-web","payload":"object","pipeline":"audit","data":{"spec":{"replicas":4}}}`
	f.put("t", 0, kafka.Record{
		Value: []byte(whole), Time: at(2),
		Headers: []kafka.Header{{Name: "content-type", Value: []byte("application/cloudevents+json; charset=UTF-8")}},
	})
	f.put("t", 0, kafka.Record{Value: []byte("hello"), Time: at(3)})
	s := f.read(t, event.Span{Start: beginning}, "updated web@7", "updated web@8 spec.replicas 3→4")
	expectSaid(t, s, "message 0/2 on t is skipped, and others like it: not a CloudEvent: it has no type or no id")
}

func TestRead_ends_with_the_error_of_who_is_given_the_messages(t *testing.T) {
	f := newFake().topic("t", "1", 1).put("t", 0, change(event.Added, "a", 1, 1, 1))
	broken := fmt.Errorf("broken")
	synctest.Test(t, func(t *testing.T) {
		err := f.log(t, "t", nil).Read(t.Context(), event.Reading{
			Span: event.Span{Start: beginning, Follow: true}, Each: func(context.Context, event.Message) error { return broken },
		})
		if err != broken { //nolint:errorlint // it is returned as it is
			t.Errorf("got %v", err)
		}
	})
}

func TestRead_hands_over_what_comes_as_it_comes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().topic("t", "1", 3)
		f.put("t", 0, change(event.Added, "old", 1, 1, 1))
		s, stop := f.tail(t, "t", tail.Config{Span: event.Span{Follow: true}})
		wait(t, time.Second)
		f.put("t", 1, change(event.Added, "b", 3, 1, 9))
		wait(t, 20*time.Millisecond)
		f.put("t", 2, change(event.Added, "a", 2, 1, 5)) // stored before, comes later
		wait(t, 20*time.Millisecond)
		expect(t, s, "added b@3 created by kubectl", "added a@2 created by kubectl")
		expectSaid(t, s, "reading topic t at b:9092 from now on; ^C ends it")
		stop()
		ended, err := s.End()
		assert.True(t, ended && err == nil, "interrupted, it returned %v", err)
	})
}
