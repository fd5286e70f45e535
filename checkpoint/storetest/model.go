// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"

	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
)

// Empty returns the state of a new checkpoint.
func Empty() *checkpoint.State {
	return &checkpoint.State{Streams: map[string]checkpoint.Stream{}, Rows: map[string]map[string]checkpoint.Row{}}
}

// After returns the state that committing b makes of s, which stays as it is.
func After(s *checkpoint.State, b *checkpoint.Batch) *checkpoint.State {
	out := &checkpoint.State{Log: s.Log, Streams: maps.Clone(s.Streams), Rows: map[string]map[string]checkpoint.Row{}}
	for stream, rows := range s.Rows {
		out.Rows[stream] = maps.Clone(rows)
	}
	Apply(out, b)
	maps.DeleteFunc(out.Rows, func(_ string, rows map[string]checkpoint.Row) bool { return len(rows) == 0 })
	return out
}

// Apply does to a state what committing b does to a store.
func Apply(s *checkpoint.State, b *checkpoint.Batch) {
	s.Identity = b.Identity
	if b.Log != nil {
		s.Log = *b.Log
	}
	for _, stream := range b.Forget {
		delete(s.Streams, stream)
		delete(s.Rows, stream)
	}
	maps.Copy(s.Streams, b.Streams)
	for stream, rows := range b.Put {
		if s.Rows[stream] == nil {
			s.Rows[stream] = map[string]checkpoint.Row{}
		}
		for key, row := range rows {
			row.Fresh = false
			s.Rows[stream][key] = row
		}
	}
	for stream, keys := range b.Drop {
		for _, key := range keys {
			delete(s.Rows[stream], key)
		}
	}
}

// difference says how got differs from want; empty if it does not. A stream without rows may be missing, and an empty
// map nil.
func difference(got, want *checkpoint.State) string {
	if got.Identity != want.Identity {
		return fmt.Sprintf("identity %+v, want %+v", got.Identity, want.Identity)
	}
	if !sameLog(got.Log, want.Log) {
		return fmt.Sprintf("log %+v, want %+v", got.Log, want.Log)
	}
	same := func(a, b checkpoint.Stream) bool { return a.Equal(&b) }
	if !maps.EqualFunc(got.Streams, want.Streams, same) {
		return fmt.Sprintf("streams %+v, want %+v", got.Streams, want.Streams)
	}
	for _, pair := range [][2]*checkpoint.State{{got, want}, {want, got}} {
		for stream, rows := range pair[0].Rows {
			for key, row := range rows {
				if other, ok := pair[1].Rows[stream][key]; !ok || other != row {
					return fmt.Sprintf("row %q of %q: %+v, want %+v", key, stream, got.Rows[stream][key], want.Rows[stream][key])
				}
			}
		}
	}
	return ""
}

func sameLog(a, b checkpoint.Log) bool {
	return a.ID == b.ID && a.Given == b.Given && a.Resyncs == b.Resyncs && a.Term == b.Term &&
		a.ResyncNew == b.ResyncNew &&
		maps.Equal(a.Marks, b.Marks) && maps.Equal(a.Ends, b.Ends) && maps.Equal(a.IDs, b.IDs)
}

// SomeBatch changes a few rows, or many, of some of three streams, and forgets a stream now and then.
func SomeBatch(random *rand.Rand) *checkpoint.Batch {
	n := random.Uint64()
	b := &checkpoint.Batch{
		Identity: Identity,
		Streams:  map[string]checkpoint.Stream{},
		Put:      map[string]map[string]checkpoint.Row{},
		Drop:     map[string][]string{},
	}
	if random.IntN(2) == 0 {
		b.Log = &checkpoint.Log{ID: fmt.Sprint(n), Marks: map[int32]uint64{0: n}, Given: n}
	}
	for _, name := range []string{"pods.v1", "secrets.v1", "pods.v1/kube-system"} {
		what := random.IntN(8)
		if what == 0 || what == 1 {
			b.Forget = append(b.Forget, name)
		}
		if what == 0 || what == 2 {
			continue
		}
		if rowsOnly := what == 3 || what == 1 && n%2 == 0; !rowsOnly {
			b.Streams[name] = checkpoint.Stream{Position: fmt.Sprint(n), Epoch: n}
		}
		rows, dropped := map[string]checkpoint.Row{}, map[string]bool{}
		for range random.IntN([]int{1, 4, 60}[random.IntN(3)]) {
			key := fmt.Sprintf("default/object-%d", random.IntN(50))
			if random.IntN(3) == 0 {
				dropped[key] = true
				delete(rows, key)
			} else if !dropped[key] {
				rows[key] = checkpoint.Row{UID: "u", ResourceVersion: fmt.Sprint(n), Epoch: n, Version: n, Sequence: n}
			}
		}
		b.Put[name] = rows
		for key := range dropped {
			b.Drop[name] = append(b.Drop[name], key)
		}
	}
	return b
}

func drawBatch(t *rapid.T) *checkpoint.Batch {
	b := &checkpoint.Batch{
		Identity: Identity,
		Streams:  map[string]checkpoint.Stream{},
		Put:      map[string]map[string]checkpoint.Row{},
		Drop:     map[string][]string{},
	}
	if rapid.Bool().Draw(t, "log") {
		b.Log = drawLog(t)
	}
	for _, stream := range []string{"pods.v1", "pods.v1/kube-system", "ä.v1.example.com"} {
		switch rapid.IntRange(0, 5).Draw(t, "what") {
		case 0:
			b.Forget = append(b.Forget, stream)
			continue
		case 1:
			continue
		case 2, 3:
			b.Streams[stream] = drawStream(t)
		}
		b.Put[stream] = map[string]checkpoint.Row{}
		for range rapid.IntRange(0, 20).Draw(t, "rows") {
			key := drawKey(t)
			if rapid.IntRange(0, 3).Draw(t, "op") > 0 {
				b.Put[stream][key] = drawRow(t)
			} else {
				b.Drop[stream] = append(b.Drop[stream], key)
			}
		}
		for _, key := range b.Drop[stream] {
			delete(b.Put[stream], key)
		}
	}
	return b
}

func drawStream(t *rapid.T) checkpoint.Stream {
	seconds := rapid.SampledFrom([]int64{0, 1, 1_764_000_000, math.MaxInt64})
	return checkpoint.Stream{
		Position: drawVersion(t), Fingerprint: rapid.String().Draw(t, "fingerprint"),
		Epoch: drawEpoch(t), Since: drawEpoch(t), Counter: rapid.Uint64().Draw(t, "counter"),
		Owes:        drawOwes(t),
		Unannounced: drawSnapshot(t),
		Announced:   drawVersion(t),
		Resynced:    seconds.Draw(t, "resynced"),
		ResyncDue:   rapid.Bool().Draw(t, "resync due"),
		Alone:       rapid.Bool().Draw(t, "alone"),
		Reselected:  rapid.Bool().Draw(t, "reselected"),
		Kind:        rapid.String().Draw(t, "kind"),
		Namespaced:  rapid.Bool().Draw(t, "namespaced"),
		Called:      rapid.SampledFrom([][]string{nil, {"po"}, {"pods", "cm.v1"}}).Draw(t, "called"),
		Floors: rapid.SampledFrom([][]sequence.Floor{nil, {{Position: 7}, {Namespace: "a", Position: 9}}}).Draw(t,
			"floors"),
		Refused: rapid.SampledFrom([][]checkpoint.Refused{
			nil, {{Key: "a/b", Changes: 1}}, {{Key: "c", Changes: 7, Version: "8"}},
		}).Draw(t, "refused"),
		Entered:  rapid.SampledFrom([]string{"", "7", "x"}).Draw(t, "entered"),
		Retiring: rapid.Bool().Draw(t, "retiring"),
		Replay: checkpoint.Replay{
			To: rapid.SampledFrom([]string{"", "", "7", "x"}).Draw(t, "replay"), Number: seconds.Draw(t, "number"),
		},
	}
}

func drawSnapshot(t *rapid.T) checkpoint.Snapshot {
	return checkpoint.Snapshot{ResourceVersion: drawVersion(t), Objects: rapid.IntRange(0, 1000).Draw(t, "objects")}
}

func drawOwes(t *rapid.T) checkpoint.Owes {
	if rapid.Bool().Draw(t, "owes nothing") {
		return checkpoint.Owes{}
	}
	return checkpoint.Owes{
		List: rapid.SampledFrom([]sequence.Owes{
			sequence.Nothing, sequence.Relist, sequence.Reselect, sequence.Republish, sequence.Repair,
		}).Draw(t, "list"),
		From: drawVersion(t), Version: drawVersion(t),
		Cause:   rapid.SampledFrom([]string{"", "expired", "log-lost"}).Draw(t, "cause"),
		Message: rapid.String().Draw(t, "message"), Number: rapid.Int64Min(0).Draw(t, "number"),
	}
}

func drawEpoch(t *rapid.T) uint64 {
	usual := rapid.SampledFrom([]uint64{0, 1_764_000_000, sequence.MaxEpoch})
	return rapid.OneOf(usual, rapid.Uint64()).Draw(t, "epoch")
}

func drawLog(t *rapid.T) *checkpoint.Log {
	l := &checkpoint.Log{
		ID: rapid.String().Draw(t, "id"), Given: drawEpoch(t),
		Resyncs: rapid.Int64Min(0).Draw(t, "resyncs"), Term: rapid.Int64Min(0).Draw(t, "term"),
		ResyncNew: rapid.Bool().Draw(t, "resyncs new"),
	}
	places := rapid.MapOfN(rapid.Int32(), rapid.Uint64(), -1, 4)
	if rapid.Bool().Draw(t, "marked") {
		l.Marks = places.Draw(t, "marks")
	}
	if rapid.Bool().Draw(t, "acknowledged") {
		l.Ends, l.IDs = places.Draw(t, "ends"), rapid.MapOfN(rapid.Int32(), rapid.String(), -1, 4).Draw(t, "ids")
	}
	return l
}

func drawKey(t *rapid.T) string {
	return rapid.OneOf(
		rapid.Map(rapid.IntRange(0, 30), func(i int) string { return fmt.Sprintf("default/object-%d", i) }),
		rapid.StringN(1, 20, 200),
	).Draw(t, "key")
}

func drawVersion(t *rapid.T) string {
	return rapid.OneOf(
		rapid.Map(rapid.Uint64(), func(n uint64) string { return fmt.Sprint(n) }),
		rapid.StringMatching(`0*[0-9]{1,40}`),
		rapid.String(),
	).Draw(t, "version")
}

func drawRow(t *rapid.T) checkpoint.Row {
	r := checkpoint.Row{
		UID: rapid.OneOf(
			rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`),
			rapid.StringMatching(`[0-9a-fA-F]{8}-[0-9a-f-]{27}`),
			rapid.String(),
		).Draw(t, "uid"),
		ResourceVersion: drawVersion(t),
		Epoch:           drawEpoch(t),
		Sequence:        rapid.Uint64().Draw(t, "sequence"),
		Partition:       rapid.Int32().Draw(t, "partition"),
		Deleted:         rapid.Bool().Draw(t, "deleted"),
		Behind:          rapid.Bool().Draw(t, "behind"),
		Rejected:        rapid.Bool().Draw(t, "rejected"),
		Form:            rapid.SampledFrom([]uint32{0, 0, 1, 1 << 31}).Draw(t, "form"),
		Digest:          rapid.SampledFrom([][16]byte{{}, {1, 2, 3}, {15: 255}}).Draw(t, "digest"),
		Fresh:           rapid.Bool().Draw(t, "fresh"),
	}
	r.Version, _ = checkpoint.Number(r.ResourceVersion)
	if rapid.IntRange(0, 3).Draw(t, "its own version") == 0 {
		r.Version = rapid.Uint64().Draw(t, "version")
	}
	return r
}

// numbered returns the n-th batch of a fixed series; its number is the position of each stream.
func numbered(n int) *checkpoint.Batch {
	b := &checkpoint.Batch{
		Identity: Identity,
		Streams:  map[string]checkpoint.Stream{},
		Put:      map[string]map[string]checkpoint.Row{},
		Drop:     map[string][]string{},
	}
	if n%3 > 0 { // every third leaves the log as it is
		b.Log = &checkpoint.Log{
			Marks: map[int32]uint64{0: uint64(n), 1: uint64(n / 2)}, Ends: map[int32]uint64{0: uint64(n)},
			IDs: map[int32]string{0: fmt.Sprint("u.7.", n, ".0")}, Given: uint64(n / 10), Resyncs: int64(n / 7),
		}
	}
	random := rand.New(rand.NewPCG(uint64(n), 1))
	for _, stream := range []string{"pods.v1", "configmaps.v1"} {
		b.Streams[stream] = checkpoint.Stream{
			Position: fmt.Sprint(n), Fingerprint: "f", Epoch: uint64(n / 10), Since: uint64(n / 20),
			Owes: checkpoint.Owes{List: sequence.Owes(n % 5), From: fmt.Sprint(n / 2), Cause: "expired"},
		}
		rows := map[string]checkpoint.Row{}
		for range 200 {
			rows[fmt.Sprintf("default/object-%d", random.IntN(2000))] = checkpoint.Row{
				UID: "u", ResourceVersion: fmt.Sprint(n), Epoch: uint64(n / 10), Version: uint64(n + n%2), Sequence: uint64(n),
				Behind: n%2 == 0,
			}
		}
		for range 50 {
			key := fmt.Sprintf("default/object-%d", random.IntN(2000))
			delete(rows, key)
			b.Drop[stream] = append(b.Drop[stream], key)
		}
		b.Put[stream] = rows
	}
	return b
}
