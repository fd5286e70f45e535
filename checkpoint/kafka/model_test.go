// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

var audit = checkpoint.Identity{ClusterUID: "5f7d2a30-0c5b-4b8e-9a11-2f1f6f0f3b6d", Cluster: "prod-eu-1", Pipeline: "audit"}

// apply returns what a state is after a commit. The state stays as it is.
func apply(s *checkpoint.State, b *checkpoint.Batch) *checkpoint.State {
	out := &checkpoint.State{Identity: b.Identity, Log: s.Log, Streams: maps.Clone(s.Streams), Rows: map[string]map[string]checkpoint.Row{}}
	for name, rows := range s.Rows {
		out.Rows[name] = maps.Clone(rows)
	}
	if b.Log != nil {
		out.Log = *b.Log
	}
	for _, name := range b.Forget {
		delete(out.Streams, name)
		delete(out.Rows, name)
	}
	maps.Copy(out.Streams, b.Streams)
	for name, rows := range b.Put {
		if out.Rows[name] == nil {
			out.Rows[name] = map[string]checkpoint.Row{}
		}
		maps.Copy(out.Rows[name], rows)
	}
	for name, keys := range b.Drop {
		for _, key := range keys {
			delete(out.Rows[name], key)
		}
	}
	maps.DeleteFunc(out.Rows, func(_ string, rows map[string]checkpoint.Row) bool { return len(rows) == 0 })
	return out
}

func emptyState() *checkpoint.State {
	return &checkpoint.State{Streams: map[string]checkpoint.Stream{}, Rows: map[string]map[string]checkpoint.Row{}}
}

// someBatch changes a few rows, or many, of some of three streams, and forgets a stream now and then.
func someBatch(random *rand.Rand) *checkpoint.Batch {
	n := random.Uint64()
	b := &checkpoint.Batch{
		Identity: audit, Streams: map[string]checkpoint.Stream{}, Put: map[string]map[string]checkpoint.Row{}, Drop: map[string][]string{},
	}
	if random.IntN(2) == 0 {
		b.Log = &checkpoint.Log{ID: fmt.Sprint(n), Marks: map[int32]uint64{0: n}}
	}
	for _, name := range []string{"pods.v1", "secrets.v1", "pods.v1/kube-system"} {
		what := random.IntN(8)
		if what == 0 || what == 1 {
			b.Forget = append(b.Forget, name)
		}
		if what == 0 || what == 2 {
			continue
		}
		if what != 3 {
			b.Streams[name] = checkpoint.Stream{Position: fmt.Sprint(n)}
		}
		rows, dropped := map[string]checkpoint.Row{}, map[string]bool{}
		for range random.IntN([]int{1, 4, 60}[random.IntN(3)]) {
			key := fmt.Sprintf("default/object-%d", random.IntN(50))
			if random.IntN(3) == 0 {
				dropped[key] = true
				delete(rows, key)
			} else if !dropped[key] {
				rows[key] = checkpoint.Row{UID: "u", ResourceVersion: fmt.Sprint(n), Sequence: n}
			}
		}
		b.Put[name] = rows
		for key := range dropped {
			b.Drop[name] = append(b.Drop[name], key)
		}
	}
	return b
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func mustOpen(ctx context.Context, t fataler, f *fake) *Store {
	t.Helper()
	s, err := openFake(ctx, f, Config{}, audit)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return s
}

func mustCommit(ctx context.Context, t fataler, s *Store, b *checkpoint.Batch) {
	t.Helper()
	if err := s.Commit(ctx, b); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

func mustLoad(ctx context.Context, t fataler, s *Store) *checkpoint.State {
	t.Helper()
	state, err := s.Load(ctx)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return state
}

func mustHold(ctx context.Context, t fataler, s *Store, want *checkpoint.State) {
	t.Helper()
	if got := mustLoad(ctx, t, s); !reflect.DeepEqual(got, want) {
		t.Fatalf("the checkpoint holds\n%+v, want\n%+v", got, want)
	}
}

// compaction is what may have happened to a log before somebody reads it.
type compaction struct {
	name  string
	below func(random *rand.Rand, end int64) int64
	nulls bool
}

var compactions = []compaction{
	{"none", func(*rand.Rand, int64) int64 { return 0 }, false},
	{"all", func(_ *rand.Rand, end int64) int64 { return end }, false},
	{"all, with the nulls", func(_ *rand.Rand, end int64) int64 { return end }, true},
	{"some", func(random *rand.Rand, end int64) int64 { return random.Int64N(end + 1) }, false},
	{"some, with the nulls", func(random *rand.Rand, end int64) int64 { return random.Int64N(end + 1) }, true},
}

func (c *compaction) run(f *fake, random *rand.Rand) {
	p := home(f)
	f.compact(p, c.below(random, f.next(p)), c.nulls)
}

// home is the partition that has the checkpoint.
func home(f *fake) int32 {
	for p, log := range f.logs {
		if len(log) > 0 {
			return p
		}
	}
	return 0
}

// Wherever the writer dies, and whatever compaction does then, what is read is what the last commit left that had been decided, and the next
// process commits on top of that, and compaction again does it no harm.
func TestLog_that_is_cut_anywhere_and_compacted_has_the_last_commit(t *testing.T) {
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 0))
		f := newFake(3)
		f.settings[settingSize] = "900"
		s, states, ends := mustOpen(t.Context(), t, f), []*checkpoint.State{emptyState()}, []int{0}
		for range 6 {
			b := someBatch(random)
			mustCommit(t.Context(), t, s, b)
			states, ends = append(states, apply(states[len(states)-1], b)), append(ends, len(f.logs[home(f)]))
		}
		for _, c := range compactions {
			committed := 0
			for n := 0; n <= ends[len(ends)-1]; n++ {
				committed = cutAt(t, f, n, committed, states, ends, c, random)
			}
			if committed != len(states)-1 {
				t.Errorf("compaction %s: the whole log has commit %d of %d", c.name, committed, len(states)-1)
			}
		}
	}
}

// cutAt checks a log of n batches, and returns which commit it has: the one before, which was given, or the next.
func cutAt(t *testing.T, whole *fake, n, committed int, states []*checkpoint.State, ends []int, c compaction, random *rand.Rand) int {
	t.Helper()
	f := whole.copy(home(whole), n)
	c.run(f, random)
	s := mustOpen(t.Context(), t, f)
	got := mustLoad(t.Context(), t, s)
	if committed+1 < len(states) && reflect.DeepEqual(got, states[committed+1]) {
		committed++
	}
	if !reflect.DeepEqual(got, states[committed]) || ends[committed] < n && committed+1 < len(states) && ends[committed+1] <= n {
		t.Fatalf("%d of %d batches, compaction %s, have\n%+v, want commit %d:\n%+v", n, ends[len(ends)-1], c.name, got, committed, states[committed])
	}
	mustHold(t.Context(), t, s, got) // read once more, not from what opening has read
	want := got
	for range 2 {
		b := someBatch(random)
		mustCommit(t.Context(), t, s, b)
		want = apply(want, b)
		c.run(f, random)
		mustHold(t.Context(), t, s, want)
	}
	c.run(f, random)
	mustHold(t.Context(), t, mustOpen(t.Context(), t, f), want)
	return committed
}

var errAway = errors.New("the broker is away")

// What is in the topic besides the checkpoint's live records is removed again.
func rubbishIn(f *fake, state *checkpoint.State) string {
	want := 3 // origin, barrier and head
	if !reflect.DeepEqual(state.Log, checkpoint.Log{}) {
		want++
	}
	streams := map[string]bool{}
	for name := range state.Streams {
		streams[name] = true
	}
	for name, rows := range state.Rows {
		streams[name] = true
		want += len(rows)
	}
	got := len(f.live())
	// A stream may be known without a state and without rows.
	if got < want+len(streams) || got > want+3 {
		return fmt.Sprintf("%d records hold, want %d and at most three streams", got, want)
	}
	return ""
}

// Commits, lost answers, deaths, compactions and new processes in any order: the checkpoint is always as the last commit left it that
// was decided.
func TestStore_is_as_the_last_commit_left_it(t *testing.T) {
	ctx := t.Context()
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		f := newFake(3)
		f.settings[settingSize] = rapid.SampledFrom([]string{"700", "900", "3000", "1048588"}).Draw(t, "limit")
		f.perFetch = rapid.IntRange(0, 3).Draw(t, "per fetch")
		s, want := mustOpen(ctx, t, f), emptyState()
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0, 1:
				b := someBatch(random)
				mustCommit(ctx, t, s, b)
				want = apply(want, b)
			case 2:
				s, want = interrupt(ctx, t, f, s, want, someBatch(random))
			case 3:
				compactions[rapid.IntRange(0, len(compactions)-1).Draw(t, "compaction")].run(f, random)
			case 4:
				s = mustOpen(ctx, t, f)
			case 5:
				mustHold(ctx, t, s, want)
			}
		}
		mustHold(ctx, t, s, want)
		s = mustOpen(ctx, t, f)
		mustHold(ctx, t, s, want)
		if want.Identity == audit {
			mustCommit(ctx, t, s, &checkpoint.Batch{Identity: audit})
			if problem := rubbishIn(f, want); problem != "" {
				t.Fatalf("%s: %v", problem, want)
			}
		}
	})
}

// interrupt has a commit fail at one of its requests, which arrives or does not. Then the process goes on, or another one comes.
func interrupt(ctx context.Context, t *rapid.T, f *fake, s *Store, want *checkpoint.State, b *checkpoint.Batch) (*Store, *checkpoint.State) {
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	at := f.requests + rapid.IntRange(1, 12).Draw(t, "request")
	arrives := rapid.Bool().Draw(t, "arrives")
	f.fault = func(n int, _ *fakeBatch) (out fault) {
		if n == at {
			cancel()
			return fault{lose: !arrives, err: errAway}
		}
		return out
	}
	err := s.Commit(stop, b)
	f.fault = nil
	after := apply(want, b)
	if err == nil {
		return s, after
	}
	switch rapid.IntRange(0, 2).Draw(t, "then") {
	case 0: // the caller commits the same again, with what came meanwhile
		mustCommit(ctx, t, s, b)
		return s, after
	case 1: // the process reads what there is
	case 2:
		s = mustOpen(ctx, t, f)
	}
	got := mustLoad(ctx, t, s)
	if reflect.DeepEqual(got, after) {
		return s, after
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("after a commit that failed the checkpoint holds\n%+v, want\n%+v or\n%+v", got, want, after)
	}
	return s, want
}
