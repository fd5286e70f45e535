// SPDX-License-Identifier: Apache-2.0

package previous

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

// room is a budget of so many bytes.
type room struct{ limit, kept int64 }

func (r *room) Keep(bytes int64) bool {
	if bytes > 0 && r.kept+bytes > r.limit {
		return false
	}
	r.kept += bytes
	return true
}

func (r *room) CanKeep(bytes int64) bool { return bytes <= r.limit }
func (r *room) KeepsTooMuch() bool       { return r.kept > r.limit }

func TestObjects_are_known_only_of_what_the_row_says(t *testing.T) {
	k := NewCache(&room{limit: 1 << 20}, func() {}).Objects(true, true)
	k.Put("a", State{
		UID: "u1", Data: k.Pack([]byte("data")), Version: "5", Sequence: 7, Partition: 2,
		Object: k.Pack([]byte("state")), Seen: "6",
	})
	row := checkpoint.Row{UID: "u1", ResourceVersion: "6", Sequence: 7, Partition: 2}
	for name, c := range map[string]struct {
		edit         func(*checkpoint.Row)
		data, object bool
	}{
		"it is":              {func(*checkpoint.Row) {}, true, true},
		"another object":     {func(r *checkpoint.Row) { r.UID = "u2" }, false, false},
		"it was deleted":     {func(r *checkpoint.Row) { r.Deleted = true }, false, false},
		"a later event":      {func(r *checkpoint.Row) { r.Sequence = 8 }, false, true},
		"another partition":  {func(r *checkpoint.Row) { r.Partition = 1 }, false, true},
		"a later state":      {func(r *checkpoint.Row) { r.ResourceVersion = "7" }, true, false},
		"of another process": {func(r *checkpoint.Row) { r.Fresh = !r.Fresh }, true, true},
	} {
		at := row
		c.edit(&at)
		logged, object := k.Logged("a", at, nil), k.Before("a", at, nil)
		assert.Equal(t, map[bool]string{true: "data"}[c.data], string(logged.Data), name)
		assert.Equal(t, map[bool]string{true: "5"}[c.data], logged.ResourceVersion, name)
		assert.Equal(t, map[bool]string{true: "state"}[c.object], string(object), name)
	}
	require.Nil(t, k.Logged("b", checkpoint.Row{}, nil).Data, "something is known of what was never put")
	assert.Nil(t, k.Before("b", checkpoint.Row{}, nil), "something is known of what was never put")
}

// What was put last is known, of all streams together, and what is kept is what was counted.
func TestCache_keeps_what_was_put_last_as_far_as_there_is_room(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type place struct {
			stream int
			key    string
		}
		r, full := &room{limit: 4000}, 0
		c := NewCache(r, func() { full++ })
		streams := []*Objects{c.Objects(true, false), c.Objects(false, true), c.Objects(true, true)}
		closed := map[int]bool{}
		var recent []place // what is known, the latest last
		sizes := map[place]int64{}
		drop := func(gone func(place) bool) {
			var left []place
			for _, p := range recent {
				if gone(p) {
					delete(sizes, p)
				} else {
					left = append(left, p)
				}
			}
			recent = left
		}
		evicted := false
		trim := func() {
			sum := int64(0)
			for _, size := range sizes {
				sum += size
			}
			for sum > r.limit {
				sum -= sizes[recent[0]]
				delete(sizes, recent[0])
				recent, evicted = recent[1:], true
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				p := place{rapid.IntRange(0, 2).Draw(t, "stream"), fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "key"))}
				n := rapid.SampledFrom([]int{0, 1, 300, 1000, 5000}).Draw(t, "bytes")
				s := State{UID: "u"}
				if n > 0 {
					s.Data = make([]byte, n)
				}
				streams[p.stream].Put(p.key, s)
				drop(func(o place) bool { return o == p })
				size := int64(n + len(p.key) + entryOverhead)
				if closed[p.stream] || n == 0 {
					return
				}
				if size > r.limit { // nothing is evicted for it
					evicted = true
					return
				}
				recent, sizes[p] = append(recent, p), size
				trim()
			},
			"limit": func(t *rapid.T) {
				r.limit = rapid.SampledFrom([]int64{500, 2000, 4000}).Draw(t, "limit")
				was := evicted
				trim()
				evicted = was // it is said once that a state does not fit
				c.Trim()
			},
			"drop": func(t *rapid.T) {
				p := place{rapid.IntRange(0, 2).Draw(t, "stream"), fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "key"))}
				streams[p.stream].Drop(p.key)
				drop(func(o place) bool { return o == p })
			},
			"close": func(t *rapid.T) {
				n := rapid.IntRange(0, 30).Draw(t, "stream")
				if n < len(streams) {
					streams[n].Close()
					closed[n] = true
					drop(func(o place) bool { return o.stream == n })
				}
			},
			"": func(t *rapid.T) {
				kept := int64(0)
				for n, k := range streams {
					objects, bytes := k.Total()
					kept += bytes
					for i := range 10 {
						_, known := sizes[place{n, fmt.Sprint(i)}]
						require.Equal(t, known, k.Get(fmt.Sprint(i)).UID == "u")
						if known {
							objects--
						}
					}
					require.Zero(t, objects)
				}
				require.Equal(t, kept, r.kept)
				require.Equal(t, evicted, full == 1)
			},
		})
	})
}

// BenchmarkCache is what 100,000 objects take in memory whose states take 100 bytes each, and what is counted of that.
func BenchmarkCache(b *testing.B) {
	for b.Loop() {
		r := &room{limit: 1 << 30}
		k := NewCache(r, func() {}).Objects(true, true)
		before := heap()
		for i := range 100_000 {
			k.Put(fmt.Sprintf("namespace-%d/pod-%d", i%100, i), State{
				UID: fmt.Sprintf("01234567-89ab-cdef-0123-%012d", i), Data: make([]byte, 50), Object: make([]byte, 50),
				Version: fmt.Sprint(1_000_000_000 + i), Seen: fmt.Sprint(1_000_000_000 + i),
			})
		}
		b.ReportMetric(float64(heap()-before)/100_000, "held-B/object")
		b.ReportMetric(float64(r.kept)/100_000, "counted-B/object")
		runtime.KeepAlive(k)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
