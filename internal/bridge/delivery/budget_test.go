// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestBudget_holds_no_more_than_its_limit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(1 << 20)
		const size = 300 << 10
		for n := range 3 {
			require.NoError(t, b.Acquire(t.Context(), size, false), "change %d", n)
		}
		require.Error(t, b.Acquire(must.Within(t, time.Hour), size, false), "the fourth of 300 KiB in 1 MiB")
		assert.EqualValues(t, 3*size, b.Bytes())
		assert.EqualValues(t, 3, b.Count())
		for range 3 {
			b.Release(size, false)
		}
		assert.Zero(t, b.Bytes()+b.Count())
		assert.NoError(t, b.Acquire(t.Context(), 5<<20, false), "what is larger passes alone")
	})
}

// While a list waits for the broker there is room for what a watch of the same pipeline shows.
func TestBudget_a_list_is_read_less_far_ahead_than_a_watch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(2 * readAhead)
		for i := range readAhead >> 20 {
			require.NoError(t, b.Acquire(t.Context(), 1<<20, true), "item %d of 1 MiB of a list", i)
		}
		ctx := must.Within(t, time.Hour)
		assert.Error(t, b.Acquire(ctx, 1<<20, true), "a list was read further than readAhead")
		for i := range readAhead >> 20 {
			require.NoError(t, b.Acquire(t.Context(), 1<<20, false), "object %d of 1 MiB of a watch", i)
		}
		b.Release(1<<20, true)
		assert.NoError(t, b.Acquire(t.Context(), 1<<20, true), "an item in the place of another")
	})
}

// A position that an event holds up, or a checkpoint that cannot be saved, keeps what is known of deleted objects.
func TestBudget_what_is_held_of_deleted_objects_leaves_less_room(t *testing.T) {
	for name, listed := range map[string]bool{"a watch": false, "a list": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const object = 1 << 10
				b := NewBudget(1 << 20)
				read := func(n int) error {
					for range n {
						if err := b.Acquire(must.Within(t, time.Hour), object, listed); err != nil {
							return err
						}
					}
					return nil
				}
				b.Hold(1<<20 - 10*object)
				require.NoError(t, read(10))
				assert.Equal(t, b.Limit(), b.Bytes(), "the limit is reached, and not passed")
				require.Error(t, read(1), "no room is left")
				b.Hold(-object + 1)
				require.Error(t, read(1), "no room is left for a whole one")
				time.AfterFunc(time.Minute, func() { b.Hold(-1) })
				began := time.Now()
				require.NoError(t, read(1), "who waits goes on when less is held of deleted objects")
				assert.Equal(t, time.Minute, time.Since(began))
			})
		})
	}
}

// Previous states have a quarter of what deleted objects leave, as far as changes leave it.
func TestBudget_holds_previous_states_within_the_limit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(1 << 20)
		fits := func(size int) error { return b.Acquire(must.Within(t, time.Hour), size, false) }
		require.True(t, b.Keep(1<<18))
		require.False(t, b.Keep(1), "a quarter is kept")
		require.False(t, b.CanKeep(1<<18+1))
		require.True(t, b.CanKeep(1<<18))
		require.NoError(t, fits(1<<19))
		require.NoError(t, fits(1<<18))
		assert.Equal(t, b.Limit(), b.Bytes())
		require.Error(t, fits(1), "no room is left")
		require.True(t, b.Keep(-1<<10))
		require.NoError(t, fits(1<<10), "who waits goes on when less is kept")
		require.False(t, b.Keep(1), "changes have taken the room")
		require.False(t, b.CanKeep(1<<18))
		b.Release(1<<19, false)
		b.Release(1<<18, false)
		require.False(t, b.KeepsTooMuch())
		b.Hold(1 << 19)
		require.False(t, b.Keep(1), "deleted objects leave half, and more than a quarter of that is kept")
		require.True(t, b.KeepsTooMuch())
		require.True(t, b.Keep(-(1<<17 - 1<<10)))
		require.False(t, b.KeepsTooMuch())
		b.SetLimit(1 << 19)
		require.True(t, b.KeepsTooMuch(), "a quarter of nothing")
		assert.EqualValues(t, 1<<19+1<<17+1<<10, b.Bytes())
		assert.EqualValues(t, 1<<19, b.Gone())
	})
}

func TestBudget_a_watch_waits_while_deleted_objects_take_half_of_it(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(1 << 20)
		var pass atomic.Bool
		await := func(during time.Duration) error { return b.AwaitGone(must.Within(t, during), pass.Load) }
		b.Hold(1<<19 - 1)
		require.NoError(t, await(0), "it is less than half")
		b.Hold(1)
		require.Error(t, await(time.Hour))
		time.AfterFunc(time.Minute, func() { pass.Store(true) })
		require.NoError(t, await(time.Minute+stepWait), "it may be read nevertheless")
		pass.Store(false)
		time.AfterFunc(time.Minute, func() { b.Hold(-1) })
		require.NoError(t, await(time.Minute+stepWait), "it is less than half again")
	})
}

// A watch goes at the broker's pace while that acknowledges, and is read to the last byte of the budget where it does
// not.
func TestBudget_a_watch_pauses_while_the_broker_keeps_up(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const object = 1 << 20
		b := NewBudget(4 * readAhead)
		fill := func(bytes int) time.Duration {
			began := time.Now()
			for range bytes / object {
				require.NoError(t, b.Acquire(t.Context(), object, false))
			}
			return time.Since(began)
		}
		took := fill(readAhead)
		assert.EqualValues(t, 0, took, "what keeps the broker busy took %v to read", took)
		took, want := fill(readAhead), readAhead/readStep*stepWait
		assert.Equal(t, want, took, "as much again took %v while the broker was silent", took)
		time.AfterFunc(stepWait/2, func() {
			for range readAhead*3/2/object + 1 {
				b.Release(object, false)
			}
		})
		assert.Equal(t, stepWait/2, fill(object),
			"the next object took, want the moment at which half of readAhead was left")
		took = fill(readAhead/2 - object)
		assert.EqualValues(t, 0, took, "what keeps the broker busy took %v to read again", took)
	})
}
