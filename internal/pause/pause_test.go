// SPDX-License-Identifier: Apache-2.0

package pause_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

func TestFor_waits_as_long_as_it_is_told_or_until_the_context_ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := pause.For(t.Context(), time.Hour); err != nil || time.Since(began) != time.Hour {
			t.Errorf("it ended with %v after %v, want an hour", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began = time.Now()
		if err := pause.For(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("it ended with %v after %v, want the context's error after a minute", err, time.Since(began))
		}
	})
}
