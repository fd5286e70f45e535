// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestInFlight_is_waited_for_until_there_is_none(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f InFlight
		require.NoError(t, f.Wait(t.Context()), "nothing was under way")
		f.Enter()
		f.Enter()
		over := make(chan error, 2)
		for range 2 {
			go func() { over <- f.Wait(t.Context()) }()
		}
		f.Leave()
		synctest.Wait()
		assert.Empty(t, over, "one is under way")
		assert.Equal(t, 1, f.Count())
		f.Leave()
		synctest.Wait()
		require.Len(t, over, 2)
		assert.NoError(t, <-over)
		f.Enter()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		assert.ErrorIs(t, f.Wait(ended), context.Canceled)
	})
}
