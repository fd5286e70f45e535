// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
)

// take returns the keys that are due, and gives them back.
func take(q *Queue) (all []keys.ID) {
	ready := func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.ready > 0
	}
	for ready() {
		id, _ := q.Get()
		all = append(all, id)
		q.Done(id)
	}
	return all
}

func TestQueue_has_a_key_once_and_gives_it_to_one_worker(t *testing.T) {
	q := NewQueue()
	for _, id := range []keys.ID{3, 200, 3} {
		q.Add(id)
	}
	id, _ := q.Get()
	assert.Equal(t, keys.ID(3), id)
	q.Add(3)
	assert.Equal(t, []keys.ID{200}, take(q), "a worker has the other one")
	q.Done(3)
	assert.Equal(t, []keys.ID{3}, take(q), "it was added since")
	q.ShutDown()
	_, down := q.Get()
	assert.True(t, down)
}

// A key that is changed all the time must not hold up the others.
func TestQueue_gives_each_key_a_turn(t *testing.T) {
	q := NewQueue()
	for _, id := range []keys.ID{1, 2, 70} {
		q.Add(id)
	}
	var all []keys.ID
	for range 4 {
		id, _ := q.Get()
		all = append(all, id)
		q.Add(1)
		q.Done(id)
	}
	assert.Equal(t, []keys.ID{1, 2, 70, 1}, all)
}

func TestQueue_wakes_workers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue()
		var workers sync.WaitGroup
		var all sync.Map
		for range 4 {
			workers.Go(func() {
				for {
					id, down := q.Get()
					if down {
						return
					}
					all.Store(id, true)
					q.Done(id)
				}
			})
		}
		synctest.Wait()
		for id := range keys.ID(100) {
			q.Add(id)
			q.AddAfter(id+100, Look)
		}
		<-time.After(2 * time.Second)
		synctest.Wait()
		n := 0
		all.Range(func(any, any) bool { n++; return true })
		assert.Equal(t, 200, n)
		q.ShutDown()
		workers.Wait()
	})
}

func TestQueue_doubles_delays_until_they_are_forgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue()
		defer q.ShutDown()
		after := func(d Delay) time.Duration {
			begun := time.Now()
			q.AddAfter(1, d)
			id, _ := q.Get()
			q.Done(id)
			return time.Since(begun).Truncate(100 * time.Millisecond)
		}
		for _, want := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
			assert.Equal(t, time.Duration(want)*time.Second, after(Look))
		}
		for _, want := range []int{1, 2, 4, 8} {
			assert.Equal(t, time.Duration(want)*100*time.Millisecond, after(Retry))
		}
		q.Forget(1, Retry)
		assert.Equal(t, 100*time.Millisecond, after(Retry))
		assert.Equal(t, 300*time.Second, after(Look))
		q.Forget(1, Look)
		assert.Equal(t, time.Second, after(Look))
	})
}

func TestQueue_keeps_the_earlier_of_two_delays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue()
		defer q.ShutDown()
		q.AddAfter(1, Look)
		q.AddAfter(1, Retry)
		q.AddAfter(2, Retry)
		q.AddAfter(2, Look)
		q.AddAfter(3, Retry)
		q.Forget(3, Retry)
		<-time.After(time.Second / 2)
		assert.Equal(t, []keys.ID{1, 2}, take(q), "what is forgotten does not wait")
		<-time.After(time.Hour)
		assert.Empty(t, take(q))
	})
}

// All keys may be late while the target is away.
func TestQueue_takes_few_bytes_for_a_key(t *testing.T) {
	const n = 100_000
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := used()
	q := NewQueue()
	defer q.ShutDown()
	for id := range keys.ID(n) {
		q.Add(id)
	}
	assert.LessOrEqual(t, int(used()-before)/n, 1)
	for id := range keys.ID(n) {
		q.AddAfter(id, Look)
	}
	assert.LessOrEqual(t, int(used()-before)/n, 40)
	runtime.KeepAlive(q)
}
