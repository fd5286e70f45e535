// SPDX-License-Identifier: Apache-2.0

package kafkalog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// replica reads a log as a replicator does. It is for a bubble of synctest.
type replica struct {
	*Log
	t *testing.T

	mu sync.Mutex
	// read has the topics and places of what was given, and the words caught-up and replaced where the reader said so.
	read      []string
	positions []uint64
	marks     event.Marks
	said      []string
	err       error
	ended     bool
}

// given returns what was read so far.
func (r *replica) given() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.read)
}

// at returns the position of a message that was read.
func (r *replica) at(i int) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.positions[i]
}

func (f *fake) replica(t *testing.T, topic string, start event.Start, follow bool) *replica {
	t.Helper()
	r := &replica{t: t, marks: event.Marks{}}
	r.Log = f.log(t, topic, func(line string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.said = append(r.said, line)
	})
	r.cfg.Group = "replica"
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	running.Go(func() {
		err := r.Read(ctx, event.Reading{
			Span: event.Span{Start: start, Follow: follow}, Counts: func(event.Message) bool { return true },
			Each: func(_ context.Context, m event.Message) error {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.read = append(r.read, m.Subject+"/"+m.Place)
				r.positions = append(r.positions, m.Position)
				r.marks.Take(&m)
				return nil
			},
			Replaced: func() { r.note("replaced") }, CaughtUp: func() { r.note("caught-up") },
		})
		r.mu.Lock()
		defer r.mu.Unlock()
		r.err, r.ended = err, true
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return r
}

func (r *replica) note(word string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read = append(r.read, word)
}

// expect lets some time pass.
func (r *replica) expect(want string) {
	r.t.Helper()
	wait(r.t, 30*time.Second)
	r.mu.Lock()
	defer r.mu.Unlock()
	assert.Equal(r.t, want, strings.Join(r.read, " "), "it said %s", strings.Join(r.said, "\n"))
}

var newest = event.Start{Newest: true}

func TestRead_tells_once_that_all_partitions_have_caught_up(t *testing.T) {
	for _, start := range []event.Start{newest, beginning} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake().topic("t", "1", 3)
			for i, p := range []int{0, 2, 2} {
				f.put("t", p, change(event.Updated, "web", i, i, i))
			}
			r := f.replica(t, "t", start, true)
			r.expect("t/0/0 t/2/0 t/2/1 caught-up")
			f.put("t", 1, change(event.Updated, "web", 4, 4, 4))
			f.change(func() { f.away = errAway })
			wait(t, time.Minute)
			f.change(func() { f.away = nil })
			r.expect("t/0/0 t/2/0 t/2/1 caught-up t/1/0")
		})
	}
}

func TestRead_has_caught_up_at_the_end_of_a_log_that_is_not_followed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().topic("t", "1", 2).put("t", 0, change(event.Added, "a", 1, 1, 1))
		r := f.replica(t, "t", newest, false)
		r.expect("t/0/0 caught-up")
		assert.True(t, r.ended && r.err == nil, "got %v", r.err)
	})
}

func TestRead_waits_for_all_partitions_until_it_has_caught_up(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().topic("t", "1", 2)
		f.put("t", 0, change(event.Added, "a", 1, 1, 1)).put("t", 1, change(event.Added, "b", 1, 1, 1))
		f.change(func() { f.broken[place{"t", 1}] = errAway })
		r := f.replica(t, "t", newest, true)
		r.expect("t/0/0")
		f.change(func() { delete(f.broken, place{"t", 1}) })
		r.expect("t/0/0 t/1/0 caught-up")
	})
}

func TestRead_has_caught_up_with_an_empty_log_and_with_one_that_does_not_exist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		r := f.replica(t, "t", newest, true)
		wait(t, doubtFor/2) // a broker that has just started may not know of it yet
		assert.Empty(t, r.given())
		r.expect("caught-up")
		f.topic("t", "1", 2).put("t", 1, change(event.Added, "a", 1, 1, 1))
		r.expect("caught-up replaced t/1/0 caught-up")
		f.topic("empty", "1", 2).replica(t, "empty", event.Start{}, true).expect("caught-up")
	})
}

func TestRead_gives_all_again_when_a_topic_is_replaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().topic("t.a", "1", 1).topic("t.b", "2", 1)
		f.put("t.a", 0, change(event.Added, "a", 1, 1, 1)).put("t.b", 0, change(event.Added, "b", 1, 1, 2))
		r := f.replica(t, "t.{x}", newest, true)
		r.expect("t.a/0/0 t.b/0/0 caught-up")
		old := r.at(1)
		f.topic("t.b", "3", 1).put("t.b", 0, change(event.Added, "c", 1, 1, 3))
		r.expect("t.a/0/0 t.b/0/0 caught-up replaced t.a/0/0 t.b/0/0 caught-up")
		m, err := r.At(t.Context(), old)
		assert.True(t, m == nil && err == nil, "got %v, %v", m, err)
		m, err = r.At(t.Context(), r.at(3))
		require.NoError(t, err)
		assert.Equal(t, "c", must.Get(event.Decode(*m))(t).Attr("name"))
		f.put("t.a", 0, change(event.Updated, "a", 2, 1, 4))
		r.expect("t.a/0/0 t.b/0/0 caught-up replaced t.a/0/0 t.b/0/0 caught-up t.a/0/1")
		assert.NotContains(t, strings.Join(r.said, "\n"), "which is new")
	})
}

func TestRead_gives_all_again_when_a_partition_has_lost_what_was_read(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().topic("t", "1", 2)
		f.put("t", 0, change(event.Added, "a", 1, 1, 1))
		for i := range 3 {
			f.put("t", 1, change(event.Added, "b", i, 1, 2+i))
		}
		r := f.replica(t, "t", newest, true)
		r.expect("t/0/0 t/1/0 t/1/1 t/1/2 caught-up")
		lost := r.at(3)
		f.change(func() {
			p := f.topics["t"].partitions[1]
			p.records, p.next = p.records[:1], 1
		})
		r.expect("t/0/0 t/1/0 t/1/1 t/1/2 caught-up replaced t/0/0 t/1/0 caught-up")
		m, err := r.At(t.Context(), lost)
		assert.True(t, m == nil && err == nil, "got %v, %v", m, err)
	})
}

func TestRead_is_not_held_up_by_a_topic_that_is_gone_and_reads_it_again_when_it_is_back(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().topic("t.a", "1", 1).topic("t.b", "2", 1)
		f.put("t.a", 0, change(event.Added, "a", 1, 1, 1)).put("t.b", 0, change(event.Added, "b", 1, 1, 2))
		f.change(func() { f.broken[place{"t.b", 0}] = errAway })
		r := f.replica(t, "t.{x}", newest, true)
		r.expect("t.a/0/0")
		var gone *fakeTopic
		f.change(func() { gone = f.topics["t.b"]; delete(f.topics, "t.b"); clear(f.broken) })
		r.expect("t.a/0/0 caught-up")
		f.change(func() { f.topics["t.b"] = gone })
		r.expect("t.a/0/0 caught-up replaced t.a/0/0 t.b/0/0 caught-up")
	})
}

func TestPosition_says_where_a_record_is_and_is_never_zero(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lane := rapid.Uint16().Draw(t, "lane")
		offset := rapid.Int64Range(0, maxPlace-1).Draw(t, "offset")
		position, err := positionOf(lane, offset)
		require.NoError(t, err)
		gotLane, gotOffset := split(position)
		assert.True(t, position != 0 && gotLane == lane && gotOffset == offset, "got %d %d", gotLane, gotOffset)
	})
	for _, offset := range []int64{-1, maxPlace, 1 << 62} {
		require.Error(t, must.Err(positionOf(0, offset)), offset)
	}
	var l lanes
	for i := range maxLanes {
		require.NoError(t, must.Err(l.of(place{"t", int32(i)})))
	}
	require.NoError(t, must.Err(l.of(place{"t", 0})))
	assert.EqualError(t, must.Err(l.of(place{"u", 0})), "more than 65536 partitions, replaced ones included, were read")
}

// stored is a topic with n records of about size bytes in one partition, of which an offset is compacted away unless it
// is a multiple of every.
func stored(n, size, every int) *fake {
	f := newFake().topic("t", "1", 2)
	for i := range n {
		r := change(event.Updated, fmt.Sprint("o", i), i, 1, i)
		r.Value = make([]byte, size)
		f.put("t", 1, r)
	}
	p := f.topics["t"].partitions[1]
	kept := p.records[:0]
	for _, r := range p.records {
		if r.Offset%int64(every) == 0 {
			kept = append(kept, r)
		}
	}
	p.records = kept
	return f
}

func TestAt_reads_twenty_thousand_positions_with_few_fetches_and_little_memory(t *testing.T) {
	const n, size = 20_000, 4000
	f := stored(n, size, 1)
	f.while = 0
	synctest.Test(t, func(t *testing.T) {
		r := f.replica(t, "t", newest, true)
		wait(t, time.Minute)
		require.Len(t, r.positions, n)
		f.change(func() { f.fetches = 0 })
		for _, position := range r.positions {
			m, err := r.At(t.Context(), position)
			require.NoError(t, err)
			require.Equal(t, position, m.Position)
		}
		assert.LessOrEqual(t, r.bodies.size, bodiesBytes+mostBody*2)
		assert.Greater(t, r.bodies.size, bodiesBytes/2)
		size := 0
		for _, c := range r.bodies.chunks {
			size += c.size + overhead
		}
		assert.Equal(t, size, r.bodies.size)
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	assert.Less(t, f.fetches, 200)
}

func TestAt_says_that_what_was_compacted_away_or_removed_is_not_there(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := stored(1000, 10, 10)
		r := f.replica(t, "t", newest, true)
		wait(t, time.Minute)
		require.Len(t, r.positions, 100)
		for _, c := range []struct {
			offset int64
			there  bool
		}{{500, true}, {501, false}, {7, false}, {990, true}} {
			m, err := r.At(t.Context(), must.Get(positionOf(r.partition1(), c.offset))(t))
			require.NoError(t, err)
			assert.Equal(t, c.there, m != nil, c.offset)
			if m != nil {
				assert.Equal(t, 2, m.Lanes)
			}
		}
		f.change(func() { f.topics["t"].partitions[1].first = 600 })
		r.bodies = newBodies(f)
		m, err := r.At(t.Context(), must.Get(positionOf(r.partition1(), 100))(t))
		assert.True(t, m == nil && err == nil, "got %v, %v", m, err)
		// One that the partition does not have yet may be what a broker that starts has not read.
		require.Error(t, must.Err(r.At(t.Context(), must.Get(positionOf(r.partition1(), 5000))(t))))
		require.Error(t, must.Err(r.At(t.Context(), must.Get(positionOf(r.partition1(), 1000))(t))))
		m, err = r.At(t.Context(), must.Get(positionOf(77, 1))(t))
		assert.True(t, m == nil && err == nil, "got %v, %v", m, err)
		f.change(func() { f.away = errAway })
		require.ErrorIs(t, must.Err(r.At(t.Context(), must.Get(positionOf(r.partition1(), 700))(t))), errAway)
	})
}

// partition1 is the lane of partition 1 of topic t.
func (r *replica) partition1() uint16 { return must.Get(r.lanes.of(place{"t", 1}))(r.t) }

func TestAt_may_be_called_by_many_and_ends_with_its_context(t *testing.T) {
	f := stored(3000, 1000, 1)
	synctest.Test(t, func(t *testing.T) {
		r := f.replica(t, "t", newest, true)
		wait(t, time.Minute)
		f.while = 10 * time.Millisecond
		var work sync.WaitGroup
		for _, position := range r.positions {
			work.Go(func() {
				m, err := r.At(t.Context(), position)
				assert.True(t, err == nil && m != nil && m.Position == position, "got %v, %v", m, err)
			})
		}
		work.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		permission := r.bodies.permission(9)
		permission <- struct{}{}
		_, err := r.bodies.at(ctx, 9, place{"t", 1}, 5)
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestAcknowledge_commits_what_comes_next_and_Behind_counts_what_does(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().topic("t", "1", 3)
		for i, p := range []int{0, 1, 1} {
			f.put("t", p, change(event.Updated, "web", i, i, i))
		}
		r := f.replica(t, "t", newest, true)
		require.NoError(t, r.Acknowledge(t.Context(), event.Marks{}))
		r.expect("t/0/0 t/1/0 t/1/1 caught-up")
		require.NoError(t, r.Acknowledge(t.Context(), event.Marks{}))
		assert.Empty(t, f.committed)
		require.NoError(t, r.Acknowledge(t.Context(), r.marks))
		assert.Equal(t, map[string]int64{"replica {t 0}": 1, "replica {t 1}": 2}, f.committed)
		assert.Equal(t, uint64(0), must.Get(r.Behind(t.Context(), r.marks))(t))
		assert.Equal(t, uint64(3), must.Get(r.Behind(t.Context(), nil))(t))
		marks := event.Marks{r.partition1(): r.at(1)}
		f.put("t", 2, change(event.Added, "x", 1, 1, 9))
		assert.Equal(t, uint64(3), must.Get(r.Behind(t.Context(), marks))(t))
		r.expect("t/0/0 t/1/0 t/1/1 caught-up t/2/0")
		// What is not given away is not behind.
		for p := range 3 {
			f.put("t", p, marker(event.Gap, "_gap", 10))
			f.put("t", p, kafka.Record{Key: []byte("gone"), Time: at(11)})
		}
		wait(t, time.Minute)
		assert.Len(t, r.read, 6, "one of the three markers")
		require.NoError(t, r.Acknowledge(t.Context(), r.marks))
		assert.Equal(t, map[string]int64{"replica {t 0}": 3, "replica {t 1}": 4, "replica {t 2}": 3}, f.committed)
		assert.Equal(t, uint64(0), must.Get(r.Behind(t.Context(), r.marks))(t))
		f.change(func() { f.away = errAway })
		require.ErrorIs(t, r.Acknowledge(t.Context(), r.marks), errAway)
	})
}
