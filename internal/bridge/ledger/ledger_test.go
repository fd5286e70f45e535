// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func row(version string) checkpoint.Row {
	number, _ := checkpoint.Number(version)
	return checkpoint.Row{UID: "u", ResourceVersion: version, Epoch: 7, Version: number}
}

func tombstoneAt(version string) checkpoint.Row {
	r := row(version)
	r.Deleted = true
	return r
}

// behind returns a row of which the log has an older state last.
func behind(r checkpoint.Row) checkpoint.Row {
	r.Behind = true
	return r
}

// of returns a row of another epoch.
func of(epoch uint64, r checkpoint.Row) checkpoint.Row {
	r.Epoch = epoch
	return r
}

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
				"put":    New(nil, nil),
				"loaded": New(map[string]checkpoint.Row{"a": tombstoneAt("10")}, nil),
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
	t.Run("by the version of the end, not that of the object", func(t *testing.T) {
		missing := tombstoneAt("10")
		missing.Version = 20
		loaded := New(map[string]checkpoint.Row{"a": missing}, nil)
		for name, l := range map[string]*Ledger{"put": New(nil, nil), "loaded": loaded} {
			l.Put("a", missing)
			l.Prune("19")
			assert.True(t, must.OK(l.Get("a")), "%s: dropped before its version", name)
			l.Prune("20")
			assert.False(t, must.OK(l.Get("a")), "%s: kept", name)
		}
	})
	t.Run("without numbers, until there is a position", func(t *testing.T) {
		l := New(nil, nil)
		l.Put("a", tombstoneAt("x"))
		l.Prune("")
		assert.True(t, must.OK(l.Get("a")), "dropped without a position")
		l.Prune("y")
		assert.False(t, must.OK(l.Get("a")), "kept without end")
	})
	t.Run("loaded ones one after the other", func(t *testing.T) {
		rows := map[string]checkpoint.Row{}
		for i := range 100 {
			rows[strconv.Itoa(i)] = tombstoneAt(strconv.Itoa(i + 1))
		}
		l := New(rows, nil)
		l.Prune("40")
		put, drop := l.Take()
		require.Empty(t, put, "dropped, %d put", len(put))
		assert.Len(t, drop, 40, "dropped, %d put", len(put))
	})
	t.Run("not what came back", func(t *testing.T) {
		l := New(nil, nil)
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
	l := New(map[string]checkpoint.Row{"kept": row("1"), "lost": row("2"), "gone": tombstoneAt("3")}, nil)
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
	want := map[string]checkpoint.Row{"lost": row("2"), "late": row("6")}
	assert.Equal(t, want, maps.Collect(unseen), "unseen")
	l.Put("lost", row("10"))
	assert.Equal(t, map[string]checkpoint.Row{"late": row("6")}, maps.Collect(unseen),
		"unseen, and one of them changed since")
	assert.Empty(t, maps.Collect(l.Unseen()), "unseen after the list")
	for range unseen {
		break
	}
}

// The log has an older state of the object last, and is owed the end.
func TestLedger_keeps_tombstones_that_are_behind(t *testing.T) {
	owed := map[string]checkpoint.Row{"a": behind(tombstoneAt("10"))}
	for name, l := range map[string]*Ledger{"put": New(nil, nil), "loaded": New(owed, nil)} {
		t.Run(name, func(t *testing.T) {
			if name == "put" {
				l.Put("a", tombstoneAt("10"))
				l.Put("a", behind(tombstoneAt("10")))
			}
			l.Put("b", tombstoneAt("11"))
			l.Prune("12")
			l.Prune("x")
			l.DropTombstones()
			got, _ := l.Get("a")
			assert.Equal(t, behind(tombstoneAt("10")), got)
			assert.False(t, must.OK(l.Get("b")), "it keeps another one back")
			l.StartList()
			assert.Equal(t, owed, maps.Collect(l.Unseen()), "the next list publishes its end")
			l.Put("a", tombstoneAt("10"))
			l.Prune("12")
			assert.False(t, must.OK(l.Get("a")), "kept although the log has the end")
		})
	}
}

// No position passes the versions of another time. These tombstones must not keep others back.
func TestLedger_drops_tombstones_in_the_order_of_versions(t *testing.T) {
	l := New(map[string]checkpoint.Row{"old": of(3, tombstoneAt("9000")), "young": tombstoneAt("5")}, nil)
	l.Put("older", of(3, tombstoneAt("9001")))
	for _, version := range rand.Perm(100) {
		l.Put(word(version+1), tombstoneAt(word(version+1)))
	}
	for position := range 100 {
		l.Prune(word(position))
		rows := l.Rows()
		for _, r := range rows {
			require.Greater(t, r.Version, uint64(position), "at %d there is %+v", position, r)
		}
		left := 102 - position
		if position < 5 {
			left++
		}
		require.Len(t, rows, left, "at %d", position)
	}
}

func TestLedger_has_no_tombstones_when_a_first_case_begins(t *testing.T) {
	l := New(map[string]checkpoint.Row{"a": row("900"), "gone": tombstoneAt("901")}, nil)
	l.Put("lost", tombstoneAt("902"))
	l.Take()
	l.DropTombstones()
	put, drop := l.Take()
	slices.Sort(drop)
	if len(put) != 0 || !slices.Equal(drop, []string{"gone", "lost"}) || l.Len() != 1 {
		t.Errorf("to put %v, to drop %v, %d live", put, drop, l.Len())
	}
	l.Put("lost", of(8, tombstoneAt("5")))
	l.Prune("6")
	assert.False(t, must.OK(l.Get("lost")), "a tombstone of the new epoch waits for versions of the old one")
}

// The very same version of another epoch is another state.
func TestLedger_tells_epochs_apart_behind_a_list(t *testing.T) {
	l := New(map[string]checkpoint.Row{"a": row("900"), "b": row("900")}, nil)
	l.StartList()
	unseen := l.Unseen()
	l.Put("a", of(8, row("900")))
	assert.Equal(t, map[string]checkpoint.Row{"b": row("900")}, maps.Collect(unseen))
}

func TestLedger_knows_its_newest_version_and_epoch(t *testing.T) {
	l := New(nil, nil)
	assert.Zero(t, l.Newest(0)+l.Epoch(), "an empty one")
	l.Put("a", of(5, row("30")))
	l.Put("b", of(6, tombstoneAt("20")))
	l.Put("c", of(6, row("x")))
	assert.EqualValues(t, 6, l.Epoch())
	for since, want := range map[uint64]uint64{0: 30, 5: 30, 6: 20, 7: 0} {
		assert.Equal(t, want, l.Newest(since), "since %d", since)
	}
}

func TestLedger_may_change_while_rows_are_read(t *testing.T) {
	l := New(map[string]checkpoint.Row{"a": row("1"), "b": row("2"), "c": tombstoneAt("3")}, nil)
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
		l, want, store := New(nil, nil), map[string]checkpoint.Row{}, map[string]checkpoint.Row{}
		key := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
		version, position := 0, 0
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				version++
				k, r := key.Draw(t, "key"), row(strconv.Itoa(version))
				r.Deleted, r.Behind = rapid.Bool().Draw(t, "deleted"), rapid.IntRange(0, 3).Draw(t, "behind") == 0
				if r.Deleted {
					r.Version += rapid.Uint64Range(0, 3).Draw(t, "unseen end")
				}
				l.Put(k, r)
				want[k] = r
			},
			"drop tombstones": func(*rapid.T) {
				l.DropTombstones()
				maps.DeleteFunc(want, func(_ string, r checkpoint.Row) bool { return r.Deleted && !r.Behind })
			},
			"commit": func(t *rapid.T) {
				position = rapid.IntRange(position, version).Draw(t, "position")
				l.Prune(word(position))
				maps.DeleteFunc(want, func(_ string, r checkpoint.Row) bool {
					return position > 0 && r.Deleted && !r.Behind && r.Version <= uint64(position)
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
				maps.DeleteFunc(live, func(_ string, r checkpoint.Row) bool { return r.Deleted })
				require.Equal(t, len(live), l.Len(), "live, %d read", len(live))
				require.Len(t, live, count(want), "live, %d read", len(live))
			},
		})
	})
}

func count(rows map[string]checkpoint.Row) (live int) {
	for _, r := range rows {
		if !r.Deleted {
			live++
		}
	}
	return live
}

func TestLedger_used_from_many_goroutines(t *testing.T) {
	l, taken := New(nil, nil), map[string]checkpoint.Row{}
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
		l.Put(key, checkpoint.Row{
			UID: key, ResourceVersion: key, Epoch: 1_764_000_000, Version: uint64(i),
			Sequence: uint64(i),
		})
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
		l := New(nil, nil)
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

// What is counted is what the heap has, within a third.
func TestLedger_counts_what_it_holds_of_objects_that_are_gone(t *testing.T) {
	const n = 100_000
	before := heap()
	var total int64
	l := New(nil, func(bytes int64) { total += bytes })
	for i := range n {
		key := "namespace/some-object-" + strconv.Itoa(i)
		l.Put(key, checkpoint.Row{UID: "u", ResourceVersion: strconv.Itoa(i), Version: uint64(i)})
		l.Put(key, tombstoneAt(strconv.Itoa(i+1)))
	}
	held := func(when string) {
		t.Helper()
		per := float64(heap()-before) / n
		counted := float64(total) / n
		assert.InDelta(t, 1, counted/per, 0.34, "%s: %.0f bytes each are counted, and %.0f held", when, counted, per)
	}
	l.Take()
	l.Committed()
	held("the position stays")
	l.Prune(strconv.Itoa(n + 1))
	removed := total
	_, drop := l.Take()
	assert.Equal(t, removed, total, "a commit is under way")
	l.Untake(nil, drop)
	assert.Equal(t, removed, total, "it has failed")
	l.rows = map[string]*line{} // Go's maps keep their room
	held("the checkpoint cannot be saved")
	_, drop = l.Take()
	assert.Len(t, drop, n)
	l.Committed()
	assert.Zero(t, total)
	l.Put("a", tombstoneAt("5"))
	l.DropTombstones()
	l.Take()
	l.Committed()
	assert.Zero(t, total)
	l.Put("a", tombstoneAt("5"))
	l.Prune("5")
	l.Put("a", row("6"))
	l.Take()
	assert.Zero(t, total, "what is back is no key to drop")
	l.Put("a", tombstoneAt("5"))
	assert.NotZero(t, total)
	l.Uncount()
	assert.Zero(t, total)
	l.Put("b", tombstoneAt("5"))
	assert.Zero(t, total)
}

func BenchmarkLedger(b *testing.B) {
	keys := manyKeys(100_000)
	l := New(nil, nil)
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
				l.Put(keys[i], checkpoint.Row{UID: "u", ResourceVersion: "5", Version: 5})
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

// What the ends of 10,000 objects cost: of ones that come in the order of versions, and of ones that do not.
func BenchmarkLedger_tombstones(b *testing.B) {
	const n = 10_000
	keys := manyKeys(n)
	for name, versions := range map[string][]int{"in order": nil, "in no order": rand.Perm(n)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			l := New(nil, nil)
			for b.Loop() {
				for i, key := range keys {
					version := i
					if versions != nil {
						version = versions[i]
					}
					l.Put(key, checkpoint.Row{UID: "u", ResourceVersion: "5", Version: uint64(version) + 1, Deleted: true})
				}
				l.Prune(word(n))
				l.Take()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/row")
		})
	}
}
