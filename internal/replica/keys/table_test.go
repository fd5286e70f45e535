// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
)

var web = Key{Resource: 1, Namespace: "shop", Name: "web"}

func seq(epoch, version uint64) sequence.Sequence {
	return sequence.Sequence{Epoch: epoch, Version: version}
}

func ours(uid, version string, applied sequence.Sequence) Actual {
	return Actual{Owner: Ours, UID: uid, Version: version, Applied: applied, Digest: 1}
}

const uid = "0a0a0a0a-0000-4000-8000-000000000001"

func TestLearn_keeps_the_newest_event(t *testing.T) {
	table := New(false)
	id, _, learned := table.Learn(web, Desired{Claim: Whole, Sequence: seq(1, 7), Position: 1}, 0)
	assert.True(t, learned)
	_, _, learned = table.Learn(web, Desired{Claim: Gone, Sequence: seq(1, 6), Position: 2}, 0)
	assert.False(t, learned, "an older event")
	_, _, learned = table.Learn(web, Desired{Claim: Whole, Sequence: seq(1, 7), Position: 3}, 0)
	assert.True(t, learned, "one that is told again may be whole")
	_, _, learned = table.Learn(web, Desired{Claim: Whole, Sequence: seq(2, 3), Position: 4}, 0)
	assert.True(t, learned, "one of a later epoch")
	row := table.Get(id)
	assert.Equal(t, web, row.Key)
	assert.Equal(t, Desired{Claim: Whole, Sequence: seq(2, 3), Position: 4}, row.Desired)
}

func TestObserve_keeps_the_latest_version_of_an_object(t *testing.T) {
	table := New(false)
	id, changed := table.Observe(web, ours(uid, "9", seq(1, 7)))
	assert.True(t, changed)
	_, changed = table.Observe(web, ours(uid, "8", seq(1, 6)))
	assert.False(t, changed, "a watch that is behind a write")
	assert.Equal(t, seq(1, 7), table.Get(id).Actual.Applied)
	_, changed = table.Observe(web, ours("another", "opaque", seq(1, 5)))
	assert.True(t, changed, "another object of the name")
	assert.Equal(t, ours("another", "opaque", seq(1, 5)), table.Get(id).Actual)
	_, found := table.Vanish(web, uid)
	assert.False(t, found, "the end of the one before")
	_, found = table.Vanish(web, "another")
	assert.True(t, found)
	assert.Equal(t, Actual{}, table.Get(id).Actual)
}

func TestWritten_is_accepted_until_somebody_changes_it(t *testing.T) {
	table := New(false)
	id, _, _ := table.Learn(web, Desired{Claim: Whole, Sequence: seq(1, 7)}, 0)
	table.Written(id, 0, ours(uid, "9", seq(1, 7)))
	assert.True(t, table.Get(id).Accepted)
	_, changed := table.Observe(web, ours(uid, "9", seq(1, 7)))
	assert.False(t, changed, "the watch shows the write")
	status := ours(uid, "10", seq(1, 7))
	_, changed = table.Observe(web, status)
	assert.False(t, changed, "a change outside of the content")
	edit := ours(uid, "11", seq(1, 7))
	edit.Digest = 2
	_, changed = table.Observe(web, edit)
	assert.True(t, changed)
	assert.False(t, table.Get(id).Accepted)
	table.Accept(id, 1)
	assert.False(t, table.Get(id).Accepted, "content that was there before")
	table.Accept(id, 2)
	assert.True(t, table.Get(id).Accepted)
}

// The watch may tell of a write, and of the deletion after it, before the answer to the write is there.
func TestWritten_and_fetched_do_not_count_after_a_deletion(t *testing.T) {
	table := New(false)
	id, _ := table.Observe(web, ours(uid, "9", seq(1, 7)))
	ends := table.Get(id).Ends
	table.Observe(web, ours(uid, "10", seq(1, 8)))
	_, found := table.Vanish(web, uid)
	assert.True(t, found)
	table.Written(id, ends, ours(uid, "10", seq(1, 8)))
	assert.Equal(t, Absent, table.Get(id).Actual.Owner)
	assert.False(t, table.Fetched(id, ends, ours(uid, "10", seq(1, 8))))
	assert.Equal(t, Absent, table.Get(id).Actual.Owner)

	ends = table.Get(id).Ends
	table.Written(id, ends, ours("another", "12", seq(1, 8)))
	assert.True(t, table.Get(id).Accepted)
	assert.True(t, table.Fetched(id, ends, ours("another", "11", seq(1, 7))), "an older version")
	assert.Equal(t, seq(1, 7), table.Get(id).Actual.Applied)
	assert.False(t, table.Get(id).Accepted)
}

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestPrune_claims_the_end_of_what_a_resync_did_not_tell(t *testing.T) {
	table := New(false)
	id, _ := table.Observe(web, ours(uid, "9", seq(1, 7)))
	told, _ := table.Observe(Key{Resource: 1, Name: "told"}, ours(uid, "9", seq(1, 7)))
	table.Learn(Key{Resource: 1, Name: "told"}, Desired{Claim: Whole, Sequence: seq(1, 6)}, 3)
	assert.False(t, table.Prune(told, Desired{Claim: Gone}, 3))
	assert.False(t, table.Prune(told, Desired{Claim: Gone}, 2), "a later resync has told it")
	assert.True(t, table.Prune(id, Desired{Claim: Gone, Position: 5}, 3))
	assert.False(t, table.Prune(id, Desired{Claim: Gone, Position: 5}, 3))
	assert.Equal(t, Desired{Claim: Gone, Position: 5, Sequence: seq(1, 7)}, table.Get(id).Desired)
}

// An object that the log does not tell is not one that was forgotten.
func TestSweep_removes_what_neither_side_has(t *testing.T) {
	table := New(false)
	table.Observe(web, ours(uid, "9", seq(1, 7)))
	table.Sweep(noon)
	table.Vanish(web, uid)
	table.Sweep(noon)
	_, _, found := table.Find(web)
	assert.True(t, found, "it has changed since")
	table.Sweep(noon)
	_, _, found = table.Find(web)
	assert.False(t, found)
	assert.False(t, table.MayHaveForgotten(web))
}

// An object that comes back does not count for the limit of deletes any more.
func TestSweep_keeps_the_ends_that_count(t *testing.T) {
	for name, c := range map[string]struct {
		Desired
		kept bool
	}{
		"it counts":              {Desired{At: noon}, true},
		"it has counted":         {Desired{At: noon.Add(-time.Millisecond)}, false},
		"it was young":           {Desired{At: noon, Young: true}, false},
		"it was not replicated":  {Desired{At: noon, LeftOut: true}, false},
		"the target had one yet": {Desired{At: noon, LeftOut: true, Counted: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			table := New(false)
			c.Claim, c.Sequence = Gone, seq(1, 8)
			table.Learn(web, c.Desired, 0)
			if c.Counted {
				table.CountEnd(web, c.At)
			}
			table.Sweep(noon)
			table.Sweep(noon)
			_, _, found := table.Find(web)
			assert.Equal(t, c.kept, found)
		})
	}
}

func TestSweep_removes_what_is_gone_on_both_sides_and_stays_so(t *testing.T) {
	table := New(true)
	id, _, _ := table.Learn(web, Desired{Claim: Gone, Sequence: seq(1, 8)}, 0)
	other := Key{Resource: 1, Name: "other"}
	table.Learn(other, Desired{Claim: Whole, Sequence: seq(1, 8)}, 0)
	table.Sweep(noon)
	table.Learn(web, Desired{Claim: Gone, Sequence: seq(1, 9)}, 0)
	table.Sweep(noon)
	assert.Equal(t, seq(1, 9), table.Get(id).Desired.Sequence, "another end")
	assert.True(t, table.Open(id, 1))
	table.Sweep(noon)
	assert.Equal(t, web, table.Get(id).Key, "its end is not handled")
	table.Handled(id, 0)
	assert.False(t, table.MayHaveForgotten(web))
	table.Sweep(noon)
	assert.True(t, table.MayHaveForgotten(web))
	assert.False(t, table.MayHaveForgotten(other))
	_, _, found := table.Find(web)
	assert.False(t, found)
	assert.Equal(t, Row{}, table.Get(id))
	_, _, found = table.Find(other)
	assert.True(t, found)
	again, _, _ := table.Learn(Key{Resource: 2, Name: "new"}, Desired{Claim: Whole}, 0)
	assert.Equal(t, id, again, "rows are used again")
	rows, _ := table.Len()
	assert.Equal(t, 2, rows)
}

func TestHandled_counts_up_to_the_newest_event(t *testing.T) {
	table := New(false)
	id, _, _ := table.Learn(web, Desired{Claim: Whole, Sequence: seq(1, 7), Position: 1}, 0)
	assert.True(t, table.Open(id, 5))
	table.Learn(web, Desired{Claim: Whole, Sequence: seq(1, 8), Position: 2}, 0)
	assert.False(t, table.Open(id, 6), "an older event is not handled")
	assert.Zero(t, table.Handled(id, 1), "the newer one is not handled")
	assert.Equal(t, uint32(5), table.Handled(id, 2))
	assert.Zero(t, table.Handled(id, 2))
}

// Rows come and go, share names over namespaces and kinds, and have names of all lengths.
func TestTable_finds_what_a_map_finds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, want := New(false), make(map[Key]uint64)
		namespace := rapid.SampledFrom([]string{"", "a", "b"})
		name := rapid.OneOf(rapid.StringMatching("[a-z]{1,2}"), rapid.SampledFrom([]string{
			strings.Repeat("x", 127), strings.Repeat("x", 128), strings.Repeat("y", 1<<pieceBits),
		}))
		for version := range rapid.Uint64Range(1, 400).Draw(t, "events") {
			k := Key{uint16(version % 3), namespace.Draw(t, "namespace"), name.Draw(t, "name")} //nolint:gosec // small
			claim := rapid.SampledFrom([]Claim{Whole, Gone}).Draw(t, "claim")
			table.Learn(k, Desired{Claim: claim, Sequence: seq(1, version), Position: version}, 0)
			if want[k] = version; claim == Gone {
				delete(want, k)
			}
			if rapid.IntRange(0, 20).Draw(t, "sweep") == 0 {
				table.Sweep(noon)
			}
		}
		table.Sweep(noon)
		table.Sweep(noon)
		got := make(map[Key]uint64)
		for _, row := range table.All() {
			got[row.Key] = row.Desired.Position
		}
		assert.Equal(t, want, got)
		for k, position := range want {
			row, _, found := table.Find(k)
			assert.True(t, found && row.Desired.Position == position, k.Name)
		}
	})
}

// Objects that live for a short time must not fill the memory with their names.
func TestTable_forgets_the_names_of_what_is_gone(t *testing.T) {
	table := New(false)
	for i := range uint64(100_000) {
		table.Learn(Key{Name: fmt.Sprintf("job-%08d", i)}, Desired{Claim: Gone, Sequence: seq(1, i)}, 0)
		if i%1000 == 0 {
			table.Sweep(noon)
		}
	}
	assert.Less(t, len(table.rows.names.pieces), 4)
	assert.Less(t, int(table.rows.n), 3000)
}

// A million keys have to fit in 400 MiB with all else.
func TestTable_takes_few_bytes_for_a_key(t *testing.T) {
	const n = 100_000
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := used()
	table := New(false)
	key := func(i int) Key {
		return Key{Resource: 1, Namespace: fmt.Sprintf("namespace-%02d", i%100), Name: fmt.Sprintf("configmap-%05d", i)}
	}
	for i := range n {
		table.Learn(key(i), Desired{Claim: Whole, Sequence: seq(1, uint64(i))}, 0)
	}
	told := int(used()-before) / n
	for i := range n {
		table.Observe(key(i), ours(uid, "9", seq(1, 7)))
	}
	written := int(used()-before) / n
	t.Logf("bytes for a key: %d, and %d where the target has the object", told, written)
	assert.LessOrEqual(t, told, 90)
	assert.LessOrEqual(t, written, 150)
	runtime.KeepAlive(table)
}
