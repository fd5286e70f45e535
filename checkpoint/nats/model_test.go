// SPDX-License-Identifier: Apache-2.0

package nats

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

// small is a limit that makes a message of a row or two.
const small = 800

// rebaseNow has the next commit write another base.
func rebaseNow(s *Store) { s.size.since = s.size.base + slack + 1 }

// Wherever in a commit, and in the base that follows it, another process opens the checkpoint: the commit fails and
// changes nothing, or it was decided before. The first process can never write again, and the other one goes on.
func TestStore_that_another_process_has_opened_cannot_commit(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	for point, refused, decided := 1, 0, false; ; point++ {
		log := b.messages(fmt.Sprint("fence.", point))
		old, want := log.mustOpen(ctx, t, small), storetest.Empty()
		for n := range 3 {
			first := benchRows(n, 20, n)
			require.NoError(t, old.Commit(ctx, first))
			want = storetest.After(want, first)
		}
		rebaseNow(old)
		var young *Store
		asked := 0
		log.before = func(string) fault {
			if asked++; asked == point {
				log.before = nil
				young = log.mustOpen(ctx, t, small)
			}
			return fault{}
		}
		second := benchRows(5, 40, 7)
		err := old.Commit(ctx, second)
		if log.before != nil {
			require.GreaterOrEqual(t, refused, 10, "of %d points the commit was refused", point-1)
			require.True(t, decided, "of %d points the commit was refused", point-1)
			return
		}
		if err == nil {
			decided, want = true, storetest.After(want, second)
		} else if decided {
			t.Fatalf("point %d: a commit that was decided has the error %v", point, err)
		} else {
			refused++
			mustBeTaken(t, err)
		}
		mustBeTaken(t, old.Commit(ctx, benchRows(0, 1, 8)))
		require.Greater(t, young.Epoch(), old.Epoch(), "epoch %d follows epoch", young.Epoch())
		storetest.MustHold(ctx, t, young, want)
		storetest.MustHold(ctx, t, young, want) // read once more, not from what opening has read
		third := benchRows(10, 30, 9)
		rebaseNow(young)
		require.NoError(t, young.Commit(ctx, third))
		storetest.MustHold(ctx, t, young, storetest.After(want, third))
	}
}

func mustBeTaken(t must.TB, err error) {
	t.Helper()
	var taken *checkpoint.TakenError
	if !errors.As(err, &taken) || !checkpoint.IsPermanent(err) {
		t.Fatalf("error %v, want that another process uses it", err)
	}
}

// Commits, lost requests and answers, requests that arrive late, deaths, bases and new processes in any order: the
// checkpoint is always as the last commit left it that was decided.
func TestStore_is_as_the_last_commit_left_it(t *testing.T) {
	b := newBench(t)
	ctx, n := t.Context(), 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		log := b.messages(fmt.Sprint("model.", n))
		limit := rapid.SampledFrom([]int{900, 3000, 1 << 20}).Draw(t, "limit")
		s, want := log.mustOpen(ctx, t, limit), storetest.Empty()
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0, 1:
				b := storetest.SomeBatch(random)
				require.NoError(t, s.Commit(ctx, b))
				want = storetest.After(want, b)
			case 2, 3:
				s, want = interrupt(ctx, t, log, s, limit, want, storetest.SomeBatch(random))
			case 4:
				rebaseNow(s)
			case 5:
				s = log.mustOpen(ctx, t, limit)
			case 6:
				log.deliverLate(ctx, random)
				storetest.MustHold(ctx, t, s, want)
			}
		}
		storetest.MustHold(ctx, t, s, want)
		s = log.mustOpen(ctx, t, limit)
		storetest.MustHold(ctx, t, s, want)
		for len(log.late) > 0 {
			log.deliverLate(ctx, random)
		}
		storetest.MustHold(ctx, t, s, want)
	})
}

// interrupt has a commit fail at one of its requests, which arrives, arrives late or never. Then the process goes on,
// or another one comes.
func interrupt(
	ctx context.Context, t *rapid.T, log *faulty, s *Store, limit int, want *checkpoint.State, b *checkpoint.Batch,
) (*Store, *checkpoint.State) {
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	point := rapid.IntRange(1, 12).Draw(t, "request")
	wrong := rapid.SampledFrom([]fault{
		{err: errAway},
		{err: errAway, lose: true},
		{err: errAway, lose: true, late: true},
	}).Draw(t, "fault")
	patient := rapid.IntRange(0, 3).Draw(t, "patient") == 0 // which takes time
	if rapid.Bool().Draw(t, "base") {
		rebaseNow(s)
	}
	asked := 0
	log.before = func(string) fault {
		if asked++; asked != point {
			return fault{}
		}
		if !patient {
			cancel()
		}
		return wrong
	}
	err := s.Commit(stop, b)
	log.before = nil
	after := storetest.After(want, b)
	if err == nil {
		return s, after
	}
	if rapid.Bool().Draw(t, "arrives") {
		log.deliverLate(ctx, rand.New(rand.NewPCG(0, 0)))
	}
	switch rapid.IntRange(0, 2).Draw(t, "then") {
	case 0: // the caller commits the same again, with what came meanwhile
		require.NoError(t, s.Commit(ctx, b))
		return s, after
	case 1: // the process reads what there is
	case 2:
		s = log.mustOpen(ctx, t, limit)
	}
	got := must.Get(s.Load(ctx))(t)
	if reflect.DeepEqual(got, after) {
		return s, after
	}
	require.Equal(t, want, got, "after a commit that failed the checkpoint holds, want\n%+v or\n%+v", want, after)
	return s, want
}

// Many commits leave a bucket that has about twice what holds.
func TestBucket_does_not_grow(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	log := b.messages("size")
	s := log.mustOpen(ctx, t, 1<<20)
	most := uint64(0)
	for n := range 1500 {
		require.NoError(t, s.Commit(ctx, benchRows(n*31%2000, 50, n)))
		if n%50 == 49 {
			stream := must.Get(b.b.js.Stream(ctx, "KV_"+testBucket))(t)
			most = max(most, stream.CachedInfo().State.Msgs)
		}
	}
	limit := uint64(slack/messageCost + 50)
	assert.LessOrEqual(t, most, limit, "the bucket had %d messages, want %d at most", most, limit)
	n := len(must.Get(s.Load(ctx))(t).Rows["pods.v1"])
	assert.GreaterOrEqual(t, n, 1500, "the checkpoint has %d rows", n)
}

// What was sent without an answer, and was not there when the checkpoint was read, never gets there.
func TestLoad_decides_what_becomes_of_a_commit_without_an_answer(t *testing.T) {
	b := newBench(t)
	log := b.messages("late")
	s := log.mustOpen(t.Context(), t, small)
	require.NoError(t, s.Commit(t.Context(), benchRows(0, 1, 1)))
	want := storetest.After(storetest.Empty(), benchRows(0, 1, 1))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log.before = func(string) fault {
		cancel()
		return fault{err: errAway, lose: true, late: true}
	}
	require.ErrorIs(t, s.Commit(ctx, benchRows(7, 1, 2)), context.Canceled, "commit")
	log.before = nil
	storetest.MustHold(t.Context(), t, s, want)
	log.deliverLate(t.Context(), rand.New(rand.NewPCG(0, 0)))
	storetest.MustHold(t.Context(), t, s, want)
	require.NoError(t, s.Commit(t.Context(), benchRows(3, 1, 3)))
	storetest.MustHold(t.Context(), t, s, storetest.After(want, benchRows(3, 1, 3)))
}
