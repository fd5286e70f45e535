// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestWork_rests_once_behind_each_burst(t *testing.T) {
	w := work{gives: true}
	cycles := uint64(0)
	for i, c := range []struct {
		collections uint64
		rests       bool
	}{
		{20, false}, // the first list
		{1, false},
		{0, true},
		{0, false},
		{1, false}, // now and then, as in an idle process
		{0, false},
		{1, false},
		{0, false},
		{2, false}, // another list
		{0, true},
		{0, false},
	} {
		cycles += c.collections
		assert.Equal(t, c.rests, w.rests(cycles), "look %d", i+1)
	}

	idle := work{gives: true}
	assert.True(t, idle.rests(0), "what only the start has needed")
	assert.False(t, idle.rests(0))
}

func TestGiveBack_collects_garbage_at_rest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forced := func() uint32 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.NumForcedGC
		}
		before := forced()
		ctx, cancel := context.WithCancel(t.Context())
		var giving sync.WaitGroup
		giving.Go(func() { GiveBack(ctx) })
		time.Sleep(10 * restEvery) //nolint:forbidigo // it is the time of a bubble
		synctest.Wait()
		assert.Greater(t, forced(), before)
		cancel()
		giving.Wait()
	})
}
