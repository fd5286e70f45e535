// SPDX-License-Identifier: Apache-2.0

package rerun

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// broken counts how often it was begun.
type broken struct{ begun int }

func (b *broken) Name() string { return "broken" }

func (b *broken) Run(context.Context) error {
	b.begun++
	return errors.New("no such file")
}

// sound has no reason to end.
type sound struct{}

func (sound) Name() string { return "sound" }

func (sound) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func TestAll_begins_again_what_has_ended(t *testing.T) {
	for name, tc := range map[string]struct {
		others []Runner
		beside bool
	}{
		"beside another one":    {others: []Runner{sound{}}},
		"beside something else": {beside: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				b, over := &broken{}, make(chan error, 1)
				go func() {
					over <- All(ctx, slog.New(slog.DiscardHandler), "replica", append([]Runner{b}, tc.others...), tc.beside)
				}()
				time.Sleep(first) //nolint:forbidigo // it is the time of a bubble
				synctest.Wait()
				assert.Equal(t, 2, b.begun, "after the first delay")
				time.Sleep(24 * time.Hour) //nolint:forbidigo // it is the time of a bubble
				synctest.Wait()
				assert.InDelta(t, 24*4+6, b.begun, 60, "every quarter of an hour at most, and not seldom")
				assert.Empty(t, over)
				stop()
				assert.NoError(t, <-over)
			})
		})
	}
}

func TestAll_ends_if_all_have_ended(t *testing.T) {
	err := All(t.Context(), slog.New(slog.DiscardHandler), "replica", []Runner{&broken{}, &broken{}}, false)
	assert.ErrorContains(t, err, "no such file\nno such file")
}
