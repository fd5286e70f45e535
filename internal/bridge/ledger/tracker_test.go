// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var epoch = time.Unix(1700000000, 0)

// script runs steps such as "open 5", "settle 1" (the first that was opened), "bookmark 7", "reset ".
func script(t *testing.T, tr *Tracker, steps ...[2]string) {
	t.Helper()
	var tickets []uint64
	for _, s := range steps {
		switch s[0] {
		case "open":
			tickets = append(tickets, tr.Open(s[1], epoch))
		case "settle":
			n := must.Get(strconv.Atoi(s[1]))(t)
			tr.Settle(tickets[n-1])
		case "bookmark":
			tr.Bookmark(s[1])
		case "reset":
			tr.Reset(s[1])
		default:
			t.Fatalf("no such step: %s", s[0])
		}
	}
}

func TestTracker_position(t *testing.T) {
	type steps = [][2]string
	for _, c := range []struct {
		name  string
		start string
		steps steps
		want  string
	}{
		{"starts where it is told", "4", nil, "4"},
		{"a version alone is not known to be complete", "4", steps{{"open", "5"}, {"settle", "1"}}, "4"},
		{"a greater version completes the one before", "4", steps{{"open", "5"}, {"settle", "1"}, {"open", "6"}}, "5"},
		{"a bookmark completes its version", "4", steps{{"open", "5"}, {"settle", "1"}, {"bookmark", "5"}}, "5"},
		{"a bookmark waits for what is open", "4", steps{{"open", "5"}, {"bookmark", "9"}}, "4"},
		{
			"a bookmark completes the version before it", "4",
			steps{{"open", "5"}, {"open", ""}, {"bookmark", "9"}, {"settle", "1"}},
			"5",
		},
		{"a bookmark moves an idle stream", "4", steps{{"bookmark", "9"}}, "9"},
		{
			"a bookmark does not wait for what follows", "4",
			steps{{"open", "5"}, {"bookmark", "9"}, {"open", "10"}, {"settle", "1"}},
			"9",
		},
		{"an old bookmark says nothing", "4", steps{{"bookmark", "3"}}, "4"},
		{"an empty bookmark says nothing", "4", steps{{"bookmark", ""}}, "4"},
		{"all changes of a version count", "4", steps{{"open", "5"}, {"open", "5"}, {"settle", "1"}, {"open", "6"}}, "4"},
		{"all changes of a version settled", "4", steps{
			{"open", "5"},
			{"open", "5"},
			{"settle", "2"},
			{"settle", "1"},
			{"open", "6"},
		}, "5"},
		{
			"settled out of order", "4",
			steps{{"open", "5"}, {"open", "6"}, {"open", "7"}, {"settle", "3"}, {"settle", "2"}},
			"4",
		},
		{"settled out of order, then the first", "4", steps{
			{"open", "5"},
			{"open", "6"},
			{"open", "7"},
			{"settle", "2"},
			{"settle", "1"},
		}, "6"},
		{"versions are numbers, not words", "9", steps{{"open", "10"}, {"settle", "1"}, {"open", "11"}}, "10"},
		{"list items never become the position", "", steps{{"open", ""}, {"settle", "1"}, {"open", ""}}, ""},
		{"a list is complete with its bookmark", "", steps{
			{"open", ""},
			{"open", ""},
			{"bookmark", "8"},
			{"settle", "2"},
			{"settle", "1"},
		}, "8"},
		{
			"a list that is not published yet holds its version", "",
			steps{{"open", ""}, {"open", ""}, {"bookmark", "8"}, {"settle", "2"}},
			"",
		},
		{
			"what is shown again is waited for again", "4",
			steps{{"open", "5"}, {"open", "6"}, {"open", "7"}, {"open", "6"}, {"settle", "1"}, {"settle", "2"}, {"settle", "3"}},
			"5",
		},
		{
			"going back does not move the position back", "4",
			steps{{"bookmark", "9"}, {"open", "7"}, {"settle", "1"}, {"open", "8"}},
			"9",
		},
		{"without numbers the stream's order counts", "x", steps{{"open", "c"}, {"settle", "1"}, {"open", "b"}}, "c"},
		{"without numbers equal versions are one", "x", steps{{"open", "c"}, {"settle", "1"}, {"open", "c"}}, "x"},
		{"a reset moves it back", "9", steps{{"reset", "4"}}, "4"},
		{"a reset forgets what was shown", "4", steps{
			{"open", "50"},
			{"open", "60"},
			{"reset", ""},
			{"settle", "1"},
			{"settle", "2"},
			{"open", "7"},
		}, ""},
		{"a reset starts over", "40", steps{
			{"open", "50"},
			{"reset", ""},
			{"open", ""},
			{"bookmark", "7"},
			{"settle", "2"},
			{"settle", "1"},
		}, "7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := NewTracker(c.start)
			script(t, tr, c.steps...)
			assert.Equal(t, c.want, tr.Position(), "position")
		})
	}
}

func TestTracker_counts_what_is_open(t *testing.T) {
	tr := NewTracker("")
	_, ok := tr.Oldest()
	require.True(t, !ok && tr.Pending() == 0, "a new tracker has something open")
	a := tr.Open("1", epoch)
	b := tr.Open("2", epoch.Add(time.Second))
	tr.OpenBarrier(epoch.Add(2*time.Second), func() {})
	tr.Settle(b)
	got, _ := tr.Oldest()
	assert.True(t, got.Equal(epoch) && tr.Pending() == 2, "oldest %v, pending %d", got, tr.Pending())
	tr.Settle(a)
	got, _ = tr.Oldest()
	assert.True(t, got.Equal(epoch.Add(2*time.Second)), "oldest %v, want the barrier's time", got)
}

func TestTracker_panics_on_a_ticket_that_is_not_open(t *testing.T) {
	twice := func(n int) func(*Tracker, []uint64) uint64 {
		return func(tr *Tracker, tickets []uint64) uint64 {
			tr.Settle(tickets[n])
			return tickets[n]
		}
	}
	for name, wrong := range map[string]func(*Tracker, []uint64) uint64{
		"the zero ticket":      func(*Tracker, []uint64) uint64 { return 0 },
		"never opened":         func(*Tracker, []uint64) uint64 { return 4 },
		"twice, at the front":  twice(0),
		"twice, in the middle": twice(1),
		"twice, and another has its place": func(tr *Tracker, tickets []uint64) uint64 {
			defer tr.Open("", epoch)
			return twice(1)(tr, tickets)
		},
		"twice, and its place is given up": func(tr *Tracker, tickets []uint64) uint64 {
			for range keepEntries {
				tickets = append(tickets, tr.Open("", epoch))
			}
			for _, ticket := range tickets {
				tr.Settle(ticket)
			}
			return tickets[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			tr := NewTracker("")
			ticket := wrong(tr, []uint64{tr.Open("", epoch), tr.Open("", epoch), tr.Open("", epoch)})
			defer func() {
				assert.NotNil(t, recover(), "no panic")
				// The tracker must not be left locked.
				tr.Position()
			}()
			tr.Settle(ticket)
		})
	}
}

func TestTracker_barrier(t *testing.T) {
	t.Run("is ready at once when nothing is open", func(t *testing.T) {
		tr, ready := NewTracker(""), 0
		tr.OpenBarrier(epoch, func() { ready++ })
		assert.Equal(t, 1, ready, "ready called %d times", ready)
	})
	t.Run("waits for all before it and for nothing after it", func(t *testing.T) {
		tr, ready := NewTracker("4"), 0
		a, b := tr.Open("5", epoch), tr.Open("6", epoch)
		m := tr.OpenBarrier(epoch, func() { ready++ })
		c := tr.Open("7", epoch)
		tr.Bookmark("8")
		tr.Settle(b)
		require.Equal(t, 0, ready, "ready before its turn")
		tr.Settle(a)
		require.Equal(t, 1, ready, "ready called %d times", ready)
		tr.Settle(c)
		got := tr.Position()
		assert.Equal(t, "6", got, "position %q passed the barrier", got)
		tr.Settle(m)
		got = tr.Position()
		assert.True(t, got == "8" && ready == 1, "position %q, ready %d times", got, ready)
	})
	t.Run("ready may settle it, and then the next one is ready", func(t *testing.T) {
		tr, order := NewTracker(""), ""
		a := tr.Open("1", epoch)
		var first, second uint64
		first = tr.OpenBarrier(epoch, func() { order += "1"; tr.Settle(first) })
		second = tr.OpenBarrier(epoch, func() { order += "2"; tr.Settle(second) })
		tr.Settle(a)
		assert.Equal(t, "12", order, "order, pending")
		assert.Equal(t, 0, tr.Pending(), "order, pending")
	})
	t.Run("settled before its turn it is never ready", func(t *testing.T) {
		tr := NewTracker("")
		a := tr.Open("1", epoch)
		m := tr.OpenBarrier(epoch, func() { t.Error("ready") })
		tr.Settle(m)
		tr.Settle(a)
		tr.OpenBarrier(epoch, func() {})
	})
}

func TestTracker_Await(t *testing.T) {
	tr := NewTracker("4")
	a := tr.Open("5", epoch)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, tr.Await(ctx), context.Canceled)
	assert.Equal(t, 1, tr.Pending(), "pending after an Await that gave up")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			err := tr.Await(t.Context())
			assert.True(t, err == nil && tr.Position() == "4", "error %v, position %q", err, tr.Position())
		})
	}
	tr.Settle(a)
	wg.Wait()
	assert.Equal(t, 0, tr.Pending(), "pending")
}

func TestTracker_settled_from_many_goroutines(t *testing.T) {
	const n = 20000
	tr, tickets := NewTracker(""), make(chan uint64, 64)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for ticket := range tickets {
				tr.Settle(ticket)
			}
		})
	}
	for i := range n {
		tickets <- tr.Open(word(i+1), epoch)
		if i%1000 == 0 {
			require.NoError(t, tr.Await(t.Context()))
		}
	}
	close(tickets)
	wg.Wait()
	tr.Bookmark(word(n))
	got := tr.Position()
	assert.True(t, got == word(n) && tr.Pending() == 0, "position %q, %d pending", got, tr.Pending())
}

func TestTracker_gives_back_the_memory_of_a_burst(t *testing.T) {
	tr := NewTracker("")
	var tickets []uint64
	for range 10 * keepEntries {
		tickets = append(tickets, tr.Open("", epoch))
	}
	for _, ticket := range tickets {
		tr.Settle(ticket)
	}
	assert.Len(t, tr.entries, 1, "room for %d entries is kept", len(tr.entries))
	tr.Settle(tr.Open("5", epoch))
	assert.Equal(t, 0, tr.Pending(), "the tracker does not go on")
}

// An object that a broker refuses for days must not take memory for all the others that pass it.
func TestTracker_needs_room_only_for_what_is_open(t *testing.T) {
	const window = 100
	tr := NewTracker("4")
	stuck := tr.Open("5", epoch)
	var open []uint64
	last := 0
	for last = 6; last < 100_000; last++ {
		open = append(open, tr.Open(word(last), epoch))
		if len(open) > window {
			tr.Settle(open[last%window])
			open = slices.Delete(open, last%window, last%window+1)
		}
	}
	n := len(tr.entries)
	assert.LessOrEqual(t, n, window+3, "room for %d entries, %d are open", n, len(open)+1)
	for _, ticket := range open {
		tr.Settle(ticket)
	}
	got := tr.Position()
	assert.Equal(t, "4", got, "position %q passed what is open", got)
	tr.Settle(stuck)
	assert.Equal(t, word(last-2), tr.Position(), "position, want %d", last-2)
}

func BenchmarkTracker_Open_Settle(b *testing.B) {
	versions := make([]string, 1024)
	for i := range versions {
		versions[i] = strconv.Itoa(48113000 + i)
	}
	now := time.Now()
	b.Run("in order", func(b *testing.B) {
		tr := NewTracker("")
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			tr.Settle(tr.Open(versions[i%1024], now))
		}
	})
	b.Run("window of 512, settled last first in eights", func(b *testing.B) {
		tr := NewTracker("")
		var open [1024]uint64
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			open[i%1024] = tr.Open(versions[i%1024], now)
			if m := i - 512; m >= 0 {
				tr.Settle(open[(m-m%8+(7-m%8))%1024])
			}
		}
	})
}
