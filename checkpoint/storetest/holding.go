// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/holder"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

// Shared is a store that processes on other machines can reach.
type Shared interface {
	Store
	checkpoint.Holder
}

// ProcessOpener opens one store as a process would. A lease decides who uses the store if elected.
type ProcessOpener func(as holder.Holder, elected bool) (Shared, error)

// The processes of the tests. Both are on machines of their own.
var (
	first  = holder.Holder{Host: "first", Boot: "a", PID: 7}
	second = holder.Holder{Host: "second", Boot: "b", PID: 1}
)

// RunHolding checks that a store which a process uses is left alone, and that another process gets it afterwards. It
// calls begin for a store that does not exist, in a bubble of synctest.
func RunHolding(t *testing.T, begin func(t *testing.T) ProcessOpener) {
	for name, check := range map[string]func(*testing.T, ProcessOpener){
		"a process that commits is left alone":             committing,
		"an idle process is left alone":                    idle,
		"a store that was closed opens at once":            closed,
		"a process that is silent is followed":             silent,
		"who is elected need not wait":                     elected,
		"of two that wait one gets it":                     waiting,
		"a store that a process opens again is its own":    again,
		"a process that was followed cannot hold it":       followed,
		"a process is known behind whatever it has stored": known,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { check(t, begin(t)) })
		})
	}
}

// rows returns a batch of some rows.
func rows(n int) *checkpoint.Batch {
	put := map[string]checkpoint.Row{}
	for i := range n {
		put["default/"+string(rune('a'+i))] = checkpoint.Row{UID: "u", ResourceVersion: "1"}
	}
	return &checkpoint.Batch{Identity: Identity, Put: map[string]map[string]checkpoint.Row{"pods.v1": put}}
}

// uses has a process use a store until the test ends, or stop is called.
func uses(t *testing.T, use func() error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for pause.For(ctx, time.Second) == nil {
			assert.NoError(t, use())
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func isHeld(t *testing.T, open ProcessOpener) {
	t.Helper()
	began := time.Now()
	_, err := open(second, false)
	var held *checkpoint.HeldError
	require.ErrorAs(t, err, &held)
	assert.Equal(t, "process 7 on host first", held.Holder)
	assert.Contains(t, err.Error(), "leaderElection")
	assert.False(t, checkpoint.IsPermanent(err), "it passes")
	assert.LessOrEqual(t, time.Since(began), holder.Every+2*time.Second)
}

func committing(t *testing.T, open ProcessOpener) {
	s := must.Get(open(first, false))(t)
	stop := uses(t, func() error { return s.Commit(t.Context(), rows(1)) })
	isHeld(t, open)
	isHeld(t, open)
	stop()
	require.NoError(t, s.Close())
}

func idle(t *testing.T, open ProcessOpener) {
	s := must.Get(open(first, false))(t)
	require.NoError(t, s.Commit(t.Context(), rows(3)))
	stop := uses(t, func() error { return s.Hold(t.Context()) })
	<-time.After(time.Minute)
	isHeld(t, open)
	stop()
	MustHold(t.Context(), t, s, After(Empty(), rows(3)))
	require.NoError(t, s.Close())
}

func closed(t *testing.T, open ProcessOpener) {
	s := must.Get(open(first, false))(t)
	require.NoError(t, s.Commit(t.Context(), rows(1)))
	require.NoError(t, s.Close())
	takes(t, open, second, false, 0)
}

func silent(t *testing.T, open ProcessOpener) {
	s := must.Get(open(first, false))(t)
	require.NoError(t, s.Commit(t.Context(), rows(1)))
	takes(t, open, second, false, holder.Silence)
	assert.True(t, checkpoint.IsTaken(s.Commit(t.Context(), rows(2))), "a silent process that goes on is refused")
}

// takes opens the store, which takes so long.
func takes(t *testing.T, open ProcessOpener, as holder.Holder, elected bool, want time.Duration) {
	t.Helper()
	began := time.Now()
	s, err := open(as, elected)
	require.NoError(t, err)
	assert.InDelta(t, want.Seconds(), time.Since(began).Seconds(), 0.5)
	MustHold(t.Context(), t, s, After(Empty(), rows(1)))
	require.NoError(t, s.Close())
}

func elected(t *testing.T, open ProcessOpener) {
	s := must.Get(open(first, true))(t)
	require.NoError(t, s.Commit(t.Context(), rows(1)))
	takes(t, open, second, true, 0)
	assert.True(t, checkpoint.IsTaken(s.Commit(t.Context(), rows(2))), "who led is refused")
}

func waiting(t *testing.T, open ProcessOpener) {
	s := must.Get(open(first, false))(t)
	require.NoError(t, s.Commit(t.Context(), rows(1)))
	third := holder.Holder{Host: "third", Boot: "c", PID: 1}
	var waits sync.WaitGroup
	stores, errs := make([]Shared, 2), make([]error, 2)
	for n, as := range []holder.Holder{second, third} {
		waits.Go(func() {
			stores[n], errs[n] = open(as, false)
			if errs[n] == nil {
				errs[n] = stores[n].Commit(t.Context(), rows(2))
			}
		})
	}
	waits.Wait()
	// Who was first may have committed before the other one, which had waited for the same silence, took it away.
	have := 0
	for n, s := range stores {
		if errs[n] == nil && s.Commit(t.Context(), rows(3)) == nil {
			have++
		}
	}
	assert.Equal(t, 1, have, "one has it, and not both: %v", errs)
}

func again(t *testing.T, open ProcessOpener) {
	s := must.Get(open(holder.Self(), false))(t)
	require.NoError(t, s.Commit(t.Context(), rows(1)))
	takes(t, open, holder.Self(), false, 0)
}

func followed(t *testing.T, open ProcessOpener) {
	s := must.Get(open(first, true))(t)
	_, err := open(second, true)
	require.NoError(t, err)
	<-time.After(holder.Every)
	assert.True(t, checkpoint.IsTaken(s.Hold(t.Context())), "a process that is idle is told, too")
}

// known has a process store so much that what it wrote first is removed.
func known(t *testing.T, open ProcessOpener) {
	s := must.Get(open(first, false))(t)
	for range 3000 {
		require.NoError(t, s.Commit(t.Context(), rows(20)))
	}
	stop := uses(t, func() error { return s.Commit(t.Context(), rows(1)) })
	isHeld(t, open)
	stop()
	require.NoError(t, s.Close())
}
