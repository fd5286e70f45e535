// SPDX-License-Identifier: Apache-2.0

package kafkalog

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/tail"
)

func TestTail_says_what_the_first_update_changed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().topic("t", "1", 2)
		f.put("t", 0, change(event.Added, "web", 1, 1, 1)).put("t", 0, change(event.Updated, "web", 2, 2, 2)).put("t", 0,
			change(event.Added, "db", 3, 1, 3))
		f.put("t", 0, kafka.Record{Key: []byte("east/apps/deployments/shop/web"), Time: at(3)})
		s := f.following(t, "t", event.Start{})
		f.put("t", 0, change(event.Updated, "web", 4, 5, 4)).put("t", 0, change(event.Updated, "db", 5, 9, 5)).put("t", 0,
			change(event.Updated, "new", 6, 1, 6))
		wait(t, time.Second)
		expect(t, s, "updated web@4 spec.replicas 2→5", "updated db@5 spec.replicas 1→9", "updated new@6")
	})
}

// Whatever a viewer has forgotten, it is never told of a state that is older than the last one.
func TestBefore_returns_the_message_before_of_the_key_or_nothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := newFake().topic("t", "1", 1)
		keys := rapid.IntRange(1, 8).Draw(rt, "keys")
		n := rapid.IntRange(1, 600).Draw(rt, "records")
		last := rapid.IntRange(1, n).Draw(rt, "last")
		for i := range n {
			f.put("t", 0, change(event.Updated, fmt.Sprint("web-", rapid.IntRange(1, keys).Draw(rt, "key")), i, i, i))
		}
		ask := rapid.SliceOfN(rapid.Bool(), n, n).Draw(rt, "ask")
		records := f.topics["t"].partitions[0].records
		synctest.Test(t, func(t *testing.T) {
			log := f.log(t, "t", nil)
			told := map[string]bool{} // keys that were handed over
			err := log.Read(t.Context(), event.Reading{
				Span: event.Span{Start: event.Start{Last: last}}, Counts: func(event.Message) bool { return true },
				Replaced: func() {},
				Each: func(ctx context.Context, m event.Message) error {
					key := string(records[m.Sequence-1].Key)
					if ask[m.Sequence-1] {
						var want *kafka.Record
						for _, r := range records[:m.Sequence-1] {
							if string(r.Key) == key {
								want = r
							}
						}
						got := log.Before(ctx, &m)
						switch {
						case got != nil && (want == nil || got.Sequence != uint64(want.Offset)+1):
							rt.Errorf("before %d: got %d", m.Sequence, got.Sequence)
						case got == nil && want != nil && !told[key]:
							rt.Errorf("before %d: %d was not found", m.Sequence, want.Offset+1)
						}
					}
					told[key] = true
					return nil
				},
			})
			assert.NoError(rt, err)
		})
	})
}

func TestBefore_does_not_take_what_is_further_away(t *testing.T) {
	f := newFake().topic("t", "1", 1)
	f.put("t", 0, change(event.Added, "web", 1, 1, 1))
	for i := range pastStep {
		f.put("t", 0, change(event.Added, "other", 2+i, 1, 2))
	}
	f.put("t", 0, change(event.Updated, "web", 1000, 7, 1000))
	f.put("t", 0, change(event.Updated, "new", 1001, 1, 1001)).put("t", 0, change(event.Updated, "web", 1002, 9, 1002))
	f.read(t, event.Span{Start: event.Start{Last: 2}}, "updated new@1001", "updated web@1002 spec.replicas 7→9")
}

func TestBefore_looks_only_so_far_back_and_at_each_record_once(t *testing.T) {
	f := newFake().topic("t", "1", 1)
	f.put("t", 0, change(event.Added, "far", 0, 1, 0))
	for i := range 10_000 {
		f.put("t", 0, change(event.Added, "web", i, 1, i))
	}
	for i := range 100 {
		f.put("t", 0, change(event.Updated, fmt.Sprint("new-", i), i, 1, 10_000+i))
	}
	f.put("t", 0, change(event.Updated, "far", 1, 2, 20_000))
	synctest.Test(t, func(t *testing.T) {
		s, _ := f.tail(t, "t", tail.Config{Span: event.Span{Start: event.Start{Last: 101}}})
		wait(t, time.Minute)
		ended, err := s.End()
		assert.True(t, ended && err == nil, "%v", err)
	})
	assert.LessOrEqual(t, f.given, pastDepth+1000, "records were read for what was before 101")
}

func TestBefore_keeps_a_bounded_amount_and_then_says_nothing(t *testing.T) {
	f := newFake().topic("t", "1", 1)
	big := func(name string, n int) kafka.Record {
		r := change(event.Added, name, n, 1, n)
		r.Value = make([]byte, 1<<20)
		return r
	}
	for i := range 40 {
		f.put("t", 0, big(fmt.Sprint("big-", i), i))
	}
	f.put("t", 0, change(event.Updated, "unknown", 50, 1, 50)).put("t", 0, change(event.Updated, "big-39", 51, 1, 51))
	asked := 0
	synctest.Test(t, func(t *testing.T) {
		log := f.log(t, "t", nil)
		err := log.Read(t.Context(), event.Reading{
			Span: event.Span{Start: event.Start{Last: 2}}, Counts: func(event.Message) bool { return true }, Replaced: func() {},
			Each: func(ctx context.Context, m event.Message) error {
				asked++
				if got := log.Before(ctx, &m); got != nil {
					t.Errorf("it kept %d", got.Sequence)
				}
				return nil
			},
		})
		if err != nil || asked != 2 || log.past.of != nil {
			t.Errorf("asked %d times, kept %v, %v", asked, log.past.of != nil, err)
		}
	})
}

func TestBefore_is_for_the_message_that_is_handed_over(t *testing.T) {
	f := newFake().topic("t", "1", 1)
	f.put("t", 0, change(event.Added, "web", 1, 1, 1)).put("t", 0, change(event.Updated, "web", 2, 2, 2))
	log := f.log(t, "t", nil)
	r := f.topics["t"].partitions[0].records[1]
	it := convert("t", 0, r)
	if got := log.Before(t.Context(), &it.Message); got != nil {
		t.Errorf("of another message it knows %d", got.Sequence)
	}
}
