// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func row(version string) Row         { return Row{UID: "u", ResourceVersion: version} }
func tombstoneAt(version string) Row { return Row{UID: "u", ResourceVersion: version, Deleted: true} }

func TestLedger_tombstones_stay_until_the_position_has_passed_them(t *testing.T) {
	for _, c := range []struct {
		name, position string
		kept           bool
	}{
		{"no position yet", "", true},
		{"before it", "9", true},
		{"at it", "10", false},
		{"after it", "11", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, l := range map[string]*Ledger{
				"put":    NewLedger(nil),
				"loaded": NewLedger(map[string]Row{"a": tombstoneAt("10")}),
			} {
				if name == "put" {
					l.Put("a", row("5"))
					l.Put("a", tombstoneAt("10"))
				}
				l.Prune(c.position)
				_, ok := l.Get("a")
				assert.Equal(t, c.kept, ok, "%s: kept", name)
				assert.Equal(t, 0, l.Len(), "%s: %d live", name, l.Len())
			}
		})
	}
	t.Run("without numbers, until there is a position", func(t *testing.T) {
		l := NewLedger(nil)
		l.Put("a", tombstoneAt("x"))
		l.Prune("")
		assert.True(t, must.OK(l.Get("a")), "dropped without a position")
		l.Prune("y")
		assert.False(t, must.OK(l.Get("a")), "kept without end")
	})
	t.Run("loaded ones one after the other", func(t *testing.T) {
		rows := map[string]Row{}
		for i := range 100 {
			rows[strconv.Itoa(i)] = tombstoneAt(strconv.Itoa(i + 1))
		}
		l := NewLedger(rows)
		l.Prune("40")
		put, drop := l.Take()
		require.Empty(t, put, "dropped, %d put", len(put))
		assert.Len(t, drop, 40, "dropped, %d put", len(put))
	})
	t.Run("not what came back", func(t *testing.T) {
		l := NewLedger(nil)
		l.Put("a", tombstoneAt("10"))
		l.Put("a", row("11"))
		l.Put("c", tombstoneAt("10"))
		l.Put("c", row("10"))
		l.Put("b", tombstoneAt("10"))
		l.Put("b", row("11"))
		l.Put("b", tombstoneAt("13"))
		l.Prune("12")
		r, _ := l.Get("a")
		assert.True(t, r == row("11") && l.Len() == 2, "row %+v, %d live", r, l.Len())
		r, _ = l.Get("c")
		assert.Equal(t, row("10"), r, "row")
		r, _ = l.Get("b")
		assert.Equal(t, tombstoneAt("13"), r, "row")
	})
}

func TestLedger_finds_what_a_list_does_not_have(t *testing.T) {
	l := NewLedger(map[string]Row{"kept": row("1"), "lost": row("2"), "gone": tombstoneAt("3")})
	assert.Empty(t, maps.Collect(l.Unseen()), "unseen without a list")
	l.StartList()
	l.Seen("lost")
	l.StartList() // the list started again: what it showed before counts for nothing
	l.Seen("kept")
	l.Seen("new")
	l.Put("new", row("7"))
	l.Put("late", row("6")) // published from before the list, and not in it
	unseen := l.Unseen()
	l.Put("after", row("9")) // a watch goes on after the list
	want := map[string]Row{"lost": row("2"), "late": row("6")}
	assert.Equal(t, want, maps.Collect(unseen), "unseen")
	l.Put("lost", row("10"))
	assert.Equal(t, map[string]Row{"late": row("6")}, maps.Collect(unseen), "unseen, and one of them changed since")
	assert.Empty(t, maps.Collect(l.Unseen()), "unseen after the list")
	for range unseen {
		break
	}
}

// The versions of a history that ended say nothing of the next one, whatever was done with them before.
func TestLedger_keeps_superseded_rows_until_they_are_replaced(t *testing.T) {
	old := row("900")
	old.Superseded = true
	l := NewLedger(map[string]Row{"a": row("900"), "b": row("900"), "gone": tombstoneAt("901")})
	l.Put("lost", row("900"))
	l.Take()
	l.Supersede()
	if put, drop := l.Take(); !maps.Equal(put, map[string]Row{"a": old, "b": old, "lost": old}) || !slices.Equal(drop, []string{"gone"}) || l.Len() != 3 {
		t.Errorf("to put %v, to drop %v, %d live", put, drop, l.Len())
	}
	l.StartList()
	l.Seen("a")
	l.Put("a", row("900")) // the very same version, of another history
	unseen := l.Unseen()
	assert.Equal(t, map[string]Row{"b": old, "lost": old}, maps.Collect(unseen), "unseen")
	l.Put("b", row("900"))
	assert.Equal(t, map[string]Row{"lost": old}, maps.Collect(unseen),
		"unseen: and one of them is of the new history since")
	r, _ := l.Get("a")
	assert.Equal(t, row("900"), r, "what replaces it")
	l.Put("lost", tombstoneAt("5"))
	l.Prune("6")
	if _, ok := l.Get("lost"); ok || l.Len() != 2 {
		t.Errorf("%d live, and a tombstone of the new history waits for versions of the old one: %v", l.Len(), ok)
	}
}

// A position of the new history may never pass the versions of the old one.
func TestLedger_drops_superseded_tombstones_at_the_first_position(t *testing.T) {
	old := tombstoneAt("900")
	old.Superseded = true
	rows := map[string]Row{"young": tombstoneAt("7"), "old": tombstoneAt("3")}
	for i := range 20 {
		rows[strconv.Itoa(i)] = old
	}
	l := NewLedger(rows)
	l.Put("late", old)
	l.Prune("")
	_, drop := l.Take()
	assert.Empty(t, drop, "dropped without a position")
	l.Prune("5")
	if _, drop := l.Take(); len(drop) != 21 || slices.Contains(drop, "young") || slices.Contains(drop, "late") {
		t.Errorf("dropped: %v", drop)
	}
	l.Prune("7")
	_, drop = l.Take()
	assert.Len(t, drop, 2, "dropped at last")
}

func TestLedger_may_change_while_rows_are_read(t *testing.T) {
	l := NewLedger(map[string]Row{"a": row("1"), "b": row("2"), "c": tombstoneAt("3")})
	n := 0
	for key := range l.All() {
		n++
		l.Put("a", tombstoneAt("8"))
		l.Put("b", tombstoneAt("9"))
		assert.NotEqual(t, "c", key, "a tombstone is not live")
	}
	assert.Equal(t, 1, n, "rows read, and the other was gone when its turn came")
}

// What is taken and committed, put into a store one after the other, is the ledger, whether commits fail or not.
func TestLedger_takes_every_change_until_it_is_committed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, want, store := NewLedger(nil), map[string]Row{}, map[string]Row{}
		key := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
		version, position := 0, 0
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				version++
				k, r := key.Draw(t, "key"), row(strconv.Itoa(version))
				r.Deleted = rapid.Bool().Draw(t, "deleted")
				l.Put(k, r)
				want[k] = r
			},
			"supersede": func(*rapid.T) {
				l.Supersede()
				maps.DeleteFunc(want, func(_ string, r Row) bool { return r.Deleted })
				for k, r := range want {
					r.Superseded = true
					want[k] = r
				}
			},
			"commit": func(t *rapid.T) {
				position = rapid.IntRange(position, version).Draw(t, "position")
				l.Prune(word(position))
				maps.DeleteFunc(want, func(_ string, r Row) bool {
					return r.Deleted && passed(word(position), r.ResourceVersion)
				})
				put, drop := l.Take()
				if rapid.Bool().Draw(t, "fails") {
					l.Untake(put, drop)
					return
				}
				maps.Copy(store, put)
				for _, k := range drop {
					_, both := put[k]
					require.False(t, both, "%s is put and dropped", k)
					delete(store, k)
				}
				require.Equal(t, want, store, "stored")
				again, drops := l.Take()
				require.Equal(t, 0, len(again)+len(drops), "taken twice: %v, %v", again, drops)
			},
			"": func(t *rapid.T) {
				live := maps.Collect(l.All())
				maps.DeleteFunc(live, func(_ string, r Row) bool { return r.Deleted })
				require.Equal(t, len(live), l.Len(), "live, %d read", len(live))
				require.Len(t, live, count(want), "live, %d read", len(live))
			},
		})
	})
}

func count(rows map[string]Row) (live int) {
	for _, r := range rows {
		if !r.Deleted {
			live++
		}
	}
	return live
}

func TestLedger_used_from_many_goroutines(t *testing.T) {
	l, taken := NewLedger(nil), map[string]Row{}
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range 2000 {
				l.Put(fmt.Sprintf("%d/%d", w, i%100), row(strconv.Itoa(i+1)))
			}
		})
	}
	for range 50 {
		put, _ := l.Take()
		maps.Copy(taken, put)
		for range l.All() {
			break
		}
		runtime.Gosched()
	}
	writers.Wait()
	put, _ := l.Take()
	maps.Copy(taken, put)
	if got := maps.Collect(l.All()); !maps.Equal(got, taken) || l.Len() != 400 {
		t.Errorf("%d live, %d read, %d taken", l.Len(), len(got), len(taken))
	}
}

func fill(l *Ledger, keys []string) {
	for i, key := range keys {
		l.Put(key, Row{UID: key, ResourceVersion: key, Sequence: uint64(i)})
	}
}

func manyKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("namespace-%d/name-of-an-object-%d", i%100, i)
	}
	return keys
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestLedger_needs_at_most_250_bytes_an_object(t *testing.T) {
	for _, n := range []int{20_000, 60_000, 100_000} {
		keys := manyKeys(n)
		before := heap()
		l := NewLedger(nil)
		fill(l, keys)
		l.Take()
		if per := float64(heap()-before) / float64(n); per > 250 {
			t.Errorf("%d objects: %.0f bytes each", n, per)
		} else {
			t.Logf("%d objects: %.0f bytes each", n, per)
		}
		runtime.KeepAlive(keys)
		runtime.KeepAlive(l)
	}
}

func BenchmarkLedger(b *testing.B) {
	keys := manyKeys(100_000)
	l := NewLedger(nil)
	fill(l, keys)
	b.Run("Get", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			l.Get(keys[i%len(keys)])
		}
	})
	b.Run("Put and Take of 10,000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for i := range 10_000 {
				l.Put(keys[i], Row{UID: "u", ResourceVersion: "5"})
			}
			l.Take()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10_000, "ns/row")
	})
	b.Run("list", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			l.StartList()
			for _, key := range keys {
				l.Seen(key)
			}
			require.Equal(b, 0, len(slices.Collect(maps.Keys(maps.Collect(l.Unseen())))))
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(keys)), "ns/row")
	})
}
