// SPDX-License-Identifier: Apache-2.0

package exit

import (
	"context"
	"os"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSignals_first_drains_second_exits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal)
		exited := 0
		ctx, stop := cancelOnSignal(t.Context(), signals, func(code int) { exited = code })
		synctest.Wait()
		require.NoError(t, ctx.Err(), "ended without a signal")
		signals <- syscall.SIGTERM
		synctest.Wait()
		require.True(t, ctx.Err() != nil && context.Cause(ctx).Error() == "received terminated" && exited == 0,
			"after the first signal: %v, exited with %d", context.Cause(ctx), exited)
		signals <- syscall.SIGINT
		synctest.Wait()
		assert.Equal(t, 130, exited, "the second signal exits, want 130")
		stop()
	})
}

func TestSignals_stop_ends_the_context_and_what_waits_for_signals(t *testing.T) {
	for name, sent := range map[string]int{"before a signal": 0, "after the first": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // fails where a goroutine is left
				signals := make(chan os.Signal)
				ctx, stop := cancelOnSignal(t.Context(), signals, func(int) { t.Error("exited") })
				for range sent {
					signals <- syscall.SIGTERM
				}
				stop()
				assert.Error(t, ctx.Err(), "the context goes on")
			})
		})
	}
}
