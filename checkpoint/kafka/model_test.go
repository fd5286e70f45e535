// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/storetest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

var audit = storetest.Identity

func mustOpen(ctx context.Context, t must.TB, f *fake) *Store {
	t.Helper()
	return must.Get(openFake(ctx, f, Config{}, audit))(t)
}

// openNew returns a new broker and a store that is open on it.
func openNew(t *testing.T, partitions int) (*fake, *Store) {
	t.Helper()
	f := newFake(partitions)
	return f, mustOpen(t.Context(), t, f)
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

// Wherever the writer dies, and whatever compaction does then, what is read is what the last commit left that had been
// decided, and the next process commits on top of that, and compaction again does it no harm.
func TestLog_that_is_cut_anywhere_and_compacted_has_the_last_commit(t *testing.T) {
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 0))
		f := newFake(3)
		f.settings[settingSize] = "900"
		s, states, ends := mustOpen(t.Context(), t, f), []*checkpoint.State{storetest.Empty()}, []int{0}
		for range 6 {
			b := storetest.SomeBatch(random)
			require.NoError(t, s.Commit(t.Context(), b))
			states, ends = append(states, storetest.After(states[len(states)-1], b)), append(ends, len(f.logs[home(f)]))
		}
		for _, c := range compactions {
			committed := 0
			for n := 0; n <= ends[len(ends)-1]; n++ {
				committed = cutAt(t, f, n, committed, states, ends, c, random)
			}
			assert.Equal(t, len(states)-1, committed, "compaction %s: the whole log has commit", c.name)
		}
	}
}

// cutAt checks a log of n batches, and returns which commit it has: the one before, which was given, or the next.
func cutAt(
	t *testing.T, whole *fake, n, committed int, states []*checkpoint.State, ends []int, c compaction, random *rand.Rand,
) int {
	t.Helper()
	f := whole.copy(home(whole), n)
	c.run(f, random)
	s := mustOpen(t.Context(), t, f)
	got := must.Get(s.Load(t.Context()))(t)
	if committed+1 < len(states) && reflect.DeepEqual(got, states[committed+1]) {
		committed++
	}
	if !reflect.DeepEqual(got, states[committed]) || ends[committed] < n && committed+1 < len(states) &&
		ends[committed+1] <= n {
		t.Fatalf("%d of %d batches, compaction %s, have\n%+v, want commit %d:\n%+v", n, ends[len(ends)-1], c.name, got,
			committed, states[committed])
	}
	storetest.MustHold(t.Context(), t, s, got) // read once more, not from what opening has read
	want := got
	for range 2 {
		b := storetest.SomeBatch(random)
		require.NoError(t, s.Commit(t.Context(), b))
		want = storetest.After(want, b)
		c.run(f, random)
		storetest.MustHold(t.Context(), t, s, want)
	}
	c.run(f, random)
	storetest.MustHold(t.Context(), t, mustOpen(t.Context(), t, f), want)
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

// Commits, lost answers, deaths, compactions and new processes in any order: the checkpoint is always as the last
// commit left it that was decided.
func TestStore_is_as_the_last_commit_left_it(t *testing.T) {
	ctx := t.Context()
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		f := newFake(3)
		f.settings[settingSize] = rapid.SampledFrom([]string{"700", "900", "3000", "1048588"}).Draw(t, "limit")
		f.perFetch = rapid.IntRange(0, 3).Draw(t, "per fetch")
		s, want := mustOpen(ctx, t, f), storetest.Empty()
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0, 1:
				b := storetest.SomeBatch(random)
				require.NoError(t, s.Commit(ctx, b))
				want = storetest.After(want, b)
			case 2:
				s, want = interrupt(ctx, t, f, s, want, storetest.SomeBatch(random))
			case 3:
				compactions[rapid.IntRange(0, len(compactions)-1).Draw(t, "compaction")].run(f, random)
			case 4:
				s = mustOpen(ctx, t, f)
			case 5:
				storetest.MustHold(ctx, t, s, want)
			}
		}
		storetest.MustHold(ctx, t, s, want)
		s = mustOpen(ctx, t, f)
		storetest.MustHold(ctx, t, s, want)
		if want.Identity == audit {
			require.NoError(t, s.Commit(ctx, &checkpoint.Batch{Identity: audit}))
			problem := rubbishIn(f, want)
			require.Empty(t, problem, "%s: %v", problem, want)
		}
	})
}

// interrupt has a commit fail at one of its requests, which arrives or does not. Then the process goes on, or another
// one comes.
func interrupt(
	ctx context.Context, t *rapid.T, f *fake, s *Store, want *checkpoint.State, b *checkpoint.Batch,
) (*Store, *checkpoint.State) {
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
	after := storetest.After(want, b)
	if err == nil {
		return s, after
	}
	switch rapid.IntRange(0, 2).Draw(t, "then") {
	case 0: // the caller commits the same again, with what came meanwhile
		require.NoError(t, s.Commit(ctx, b))
		return s, after
	case 1: // the process reads what there is
	case 2:
		s = mustOpen(ctx, t, f)
	}
	got := must.Get(s.Load(ctx))(t)
	if reflect.DeepEqual(got, after) {
		return s, after
	}
	require.Equal(t, want, got, "after a commit that failed the checkpoint holds, want\n%+v or\n%+v", want, after)
	return s, want
}
