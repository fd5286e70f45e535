// SPDX-License-Identifier: Apache-2.0

package pause_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

func TestFor_waits_as_long_as_it_is_told_or_until_the_context_ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := pause.For(t.Context(), time.Hour); err != nil || time.Since(began) != time.Hour {
			t.Errorf("it ended with %v after %v, want an hour", err, time.Since(began))
		}
		ctx := must.Within(t, time.Minute)
		began = time.Now()
		if err := pause.For(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("it ended with %v after %v, want the context's error after a minute", err, time.Since(began))
		}
	})
}

func TestBackoff_grows_to_a_bound(t *testing.T) {
	for n := 1; n < 100; n++ {
		longest := min(100*time.Millisecond<<min(n-1, 20), 2*time.Second)
		d := pause.Backoff(n, 100*time.Millisecond, 2*time.Second)
		assert.True(t, d >= longest/2 && d <= longest, "after %d failures: %v", n, d)
	}
}

func TestAgain_tries_until_patience_ends_or_another_attempt_does_not_help(t *testing.T) {
	failed, hopeless := errors.New("failed"), errors.New("hopeless")
	final := func(err error) bool { return errors.Is(err, hopeless) }
	synctest.Test(t, func(t *testing.T) {
		began, tries := time.Now(), 0
		err := pause.Again(t.Context(), 10*time.Second, final, func() error {
			tries++
			return failed
		})
		if took := time.Since(began); !errors.Is(err, failed) || took != 10*time.Second || tries < 8 || tries > 30 {
			t.Errorf("%v after %v and %d attempts", err, took, tries)
		}
		tries = 0
		err = pause.Again(t.Context(), time.Hour, final, func() error {
			if tries++; tries == 3 {
				return hopeless
			}
			return failed
		})
		require.ErrorIs(t, err, hopeless, "after %d attempts", tries)
		assert.Equal(t, 3, tries, "after %d attempts", tries)
		tries = 0
		err = pause.Again(t.Context(), 0, final, func() error { tries++; return failed })
		assert.True(t, errors.Is(err, failed) && tries == 1, "without patience: %v after %d attempts", err, tries)
		ctx := must.Within(t, time.Second)
		if err := pause.Again(ctx, time.Hour, final, func() error { return failed }); !errors.Is(err, failed) ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("when the context ends: %v", err)
		}
	})
}
