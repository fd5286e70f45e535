// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSemaphore_that_has_become_smaller_admits_nobody_until_less_is_taken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSemaphore(10)
		take := func(size int) (taken chan error) {
			taken = make(chan error, 1)
			go func() { taken <- r.acquire(t.Context(), size) }()
			synctest.Wait()
			return taken
		}
		for range 2 {
			require.NoError(t, <-take(5))
		}
		r.setLimit(6)
		first, second := take(2), take(9) // which is larger than all of it
		r.release(5)
		synctest.Wait()
		assert.Equal(t, 0, len(first), "5 and 2 fit into 6")
		r.setLimit(7)
		synctest.Wait()
		require.Equal(t, 1, len(first), "5 and 2 do not fit into 7, or 9 do")
		assert.Equal(t, 0, len(second), "5 and 2 do not fit into 7, or 9 do")
		r.release(5)
		r.release(2)
		assert.NoError(t, <-second)
	})
}

// Whatever is taken, given back, given up and resized: what is taken fits, or is alone, and all of it comes back.
func TestSemaphore_keeps_count(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, 20).Draw(t, "limit")
		r, most := newSemaphore(limit), limit
		var held []int
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				size := rapid.IntRange(1, 25).Draw(t, "size")
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				fits := r.used == 0 || r.used+int64(size) <= r.limit
				err := r.acquire(ended, size)
				if (err == nil) != fits || err != nil && !errors.Is(err, context.Canceled) {
					t.Fatalf("%d beside %d of %d: %v", size, r.used, r.limit, err)
				}
				if err == nil {
					held = append(held, size)
				}
			case 1:
				if len(held) > 0 {
					r.release(held[0])
					held = held[1:]
				}
			default:
				most = rapid.Int64Range(1, 20).Draw(t, "limit")
				r.setLimit(most)
			}
		}
		for _, size := range held {
			r.release(size)
		}
		require.True(t, r.used == 0 && len(r.waiting) == 0 && r.size() == most,
			"%d are taken, %d wait, the limit is %d", r.used, len(r.waiting), r.limit)
	})
}
