// SPDX-License-Identifier: Apache-2.0

package kafkalog

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/tail"
)

func TestTail_begins_and_ends_where_it_is_told(t *testing.T) {
	f := newFake().topic("t", "1", 2)
	f.read(t, event.Span{})
	f.read(t, event.Span{Start: event.Start{Last: 3}})
	f.put("t", 0, change(event.Added, "a", 1, 1, 1)).put("t", 1, change(event.Added, "b", 2, 1, 2)).put("t", 0,
		change(event.Updated, "a", 3, 2, 3))
	f.put("t", 0, record(3, "", map[string]string{"id": ""}))
	f.put("t", 1, change(event.Updated, "b", 4, 3, 4)).put("t", 0, change(event.Updated, "a", 5, 5, 5))
	first, second := "added a@1 created by kubectl", "added b@2 created by kubectl"
	third, fourth, fifth := "updated a@3 spec.replicas 1→2", "updated b@4 spec.replicas 1→3",
		"updated a@5 spec.replicas 2→5"
	since := func(seconds int) event.Start { return event.Start{Time: at(seconds)} }

	f.read(t, event.Span{})
	f.read(t, event.Span{Start: beginning}, first, second, third, fourth, fifth)
	f.read(t, event.Span{Start: since(3)}, third, fourth, fifth)
	f.read(t, event.Span{Start: since(5)}, fifth)
	within := at(3).Add(700 * time.Microsecond) // records have milliseconds
	f.read(t, event.Span{Start: event.Start{Time: within}}, third, fourth, fifth)
	f.read(t, event.Span{Start: beginning, Until: within}, first, second)
	f.read(t, event.Span{Start: since(6)})
	f.read(t, event.Span{Start: beginning, Until: at(3)}, first, second)
	f.read(t, event.Span{Start: beginning, Until: at(1)})
	f.read(t, event.Span{Start: since(2), Until: at(5)}, second, third, fourth)
	for n, want := range [][]string{
		1: {fifth}, 2: {fourth, fifth}, 3: {third, fourth, fifth},
		99: {first, second, third, fourth, fifth},
	} {
		if n > 0 && want != nil {
			f.read(t, event.Span{Start: event.Start{Last: n}}, want...)
		}
	}
	f.read(t, event.Span{Start: event.Start{Last: 2}, Until: at(5)}, third, fourth)
}

// In these logs a filter lets few messages pass.
func TestTail_begins_with_the_last_that_are_shown(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		partitions := rapid.IntRange(1, 4).Draw(rt, "partitions")
		n := rapid.IntRange(1, 8).Draw(rt, "last")
		rare := rapid.IntRange(1, 40).Draw(rt, "one in")
		f := newFake().topic("t", "1", partitions)
		var shown []string
		for i := range rapid.IntRange(0, 300).Draw(rt, "records") {
			p := rapid.IntRange(0, partitions-1).Draw(rt, "partition")
			name := "other"
			if rapid.IntRange(1, rare).Draw(rt, "kind") == 1 {
				name = "web"
				shown = append(shown, fmt.Sprintf("added web@%d created by kubectl", i))
			}
			f.put("t", p, change(event.Added, name, i, 1, i))
			if rapid.IntRange(0, 9).Draw(rt, "gone") == 0 {
				f.topics["t"].partitions[p].next += int64(rapid.IntRange(1, 30).Draw(rt, "compacted"))
			}
		}
		synctest.Test(t, func(t *testing.T) {
			s, _ := f.tail(t, "t", tail.Config{
				Span:   event.Span{Start: event.Start{Last: n}},
				Filter: tail.Filter{Names: []string{"web"}},
			})
			wait(t, time.Minute)
			want := strings.Join(shown[max(0, len(shown)-n):], "\n")
			assert.Equal(rt, want, s.Text())
		})
	})
}

func TestTail_of_the_last_ones_leaves_alone_what_is_older(t *testing.T) {
	f := newFake().topic("t", "1", 4)
	for i := range 40_000 {
		name := "other"
		if i%4 == 0 {
			name = "web" // all of it in partition 0
		}
		f.put("t", i%4, change(event.Added, name, i, 1, i))
	}
	synctest.Test(t, func(t *testing.T) {
		s, _ := f.tail(t, "t", tail.Config{
			Span:   event.Span{Start: event.Start{Last: 20}},
			Filter: tail.Filter{Names: []string{"web"}},
		})
		wait(t, time.Minute)
		assert.Equal(t, 20, strings.Count(s.Text(), "added web"), "events")
	})
	assert.LessOrEqual(t, f.given, 2000, "records were read for 20")
}

func TestTail_since_a_time_reads_nothing_that_is_older(t *testing.T) {
	f := newFake().topic("t", "1", 3)
	for i := range 50_000 {
		f.put("t", i%2, change(event.Added, "web", i, 1, i)) // partition 2 has nothing
	}
	f.read(t, event.Span{Start: event.Start{Time: at(49_998)}}, "added web@49998 created by kubectl",
		"added web@49999 created by kubectl")
	assert.Equal(t, 2, f.given, "records were read for 2, and brokers asked %d times", f.asked)
	assert.Equal(t, 2, f.asked, "records were read for 2, and brokers asked %d times", f.asked)
}

func TestTail_follows_until_a_time_and_shows_what_was_stored_before_it(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().topic("t", "1", 2)
		put := func(partition int, name string, version int) {
			r := change(event.Added, name, version, 1, 0)
			r.Time = time.Now()
			f.put("t", partition, r)
		}
		s, _ := f.tail(t, "t", tail.Config{Span: event.Span{
			Follow: true, Start: beginning,
			Until: time.Now().Add(10 * time.Second),
		}})
		wait(t, 3*time.Second)
		put(0, "a", 1)
		wait(t, 6990*time.Millisecond)
		f.change(func() { f.broken[place{"t", 1}] = kafkago.NotLeaderForPartition }) // what was stored last is fetched later
		put(1, "b", 2)
		wait(t, 20*time.Millisecond)
		put(0, "c", 3)
		wait(t, 5*time.Second)
		ended, _ := s.End()
		assert.False(t, ended, "it ended without all that was asked for")
		f.change(func() { delete(f.broken, place{"t", 1}) })
		wait(t, 5*time.Second)
		ended, err := s.End()
		require.True(t, ended, "ended")
		assert.NoError(t, err, "ended")
		expect(t, s, "added a@1 created by kubectl", "added b@2 created by kubectl")
	})
}

func TestTail_since_a_time_to_come_waits_for_it(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().topic("t", "1", 1)
		f.put("t", 0, change(event.Added, "a", 1, 1, 1))
		s, _ := f.tail(t, "t", tail.Config{Span: event.Span{Follow: true, Start: event.Start{Time: at(10)}}})
		wait(t, time.Second)
		f.put("t", 0, change(event.Added, "b", 2, 1, 9)).put("t", 0, change(event.Added, "c", 3, 1, 10))
		wait(t, time.Second)
		expect(t, s, "added c@3 created by kubectl")
	})
}

func TestTail_says_what_it_reads(t *testing.T) {
	for want, span := range map[string]event.Span{
		"from now on":                            {},
		"from its beginning on":                  {Start: beginning},
		"from 2026-11-20T14:30:05Z on":           {Start: event.Start{Time: at(5)}},
		"from the last 3 events that match":      {Start: event.Start{Last: 3}},
		"from now on until 2126-11-20T14:30:05Z": {Until: at(5).AddDate(100, 0, 0)},
	} {
		must.RunInBubble(t, want, func(t *testing.T) {
			span.Follow = true
			s, _ := newFake().topic("t", "1", 2).tail(t, "t", tail.Config{Span: span})
			wait(t, time.Second)
			expectSaid(t, s, "reading topic t at b:9092 "+want+"; ^C ends it")
		})
	}
}

func TestRead_ends_promptly_with_its_context(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().topic("t", "1", 100)
		f.while = 50 * time.Millisecond
		_, stop := f.tail(t, "t", tail.Config{Span: event.Span{Follow: true}})
		wait(t, time.Second)
		begin := time.Now()
		stop()
		took := time.Since(begin)
		assert.True(t, took <= 100*time.Millisecond && f.busy <= 0, "it took %v, and left %d fetches", took, f.busy)
	})
}
