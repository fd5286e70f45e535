// SPDX-License-Identifier: Apache-2.0

package must_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// fake ends its goroutine as a test does.
type fake struct{ said string }

func (f *fake) Helper()                        {}
func (f *fake) Fatal(args ...any)              { f.said = fmt.Sprint(args...); runtime.Goexit() }
func (f *fake) Fatalf(how string, args ...any) { f.Fatal(fmt.Sprintf(how, args...)) }

// falling takes less time with each call.
func falling(from time.Duration) func() time.Duration {
	return func() time.Duration { from--; return from }
}

func TestErr_and_OK_are_what_a_call_ends_with(t *testing.T) {
	broken := errors.New("broken")
	assert.Equal(t, broken, must.Err(7, broken))
	assert.NoError(t, must.Err(7, nil))
	assert.True(t, must.OK(7, true))
	assert.False(t, must.OK(7, false))
}

func TestWithin_ends_with_its_time_or_with_the_test(t *testing.T) {
	var early context.Context
	t.Run("test", func(t *testing.T) { early = must.Within(t, time.Hour) })
	assert.ErrorIs(t, early.Err(), context.Canceled)
	synctest.Test(t, func(t *testing.T) {
		late := must.Within(t, time.Hour)
		<-time.After(59 * time.Minute)
		assert.NoError(t, late.Err())
		<-time.After(time.Minute)
		synctest.Wait()
		assert.ErrorIs(t, late.Err(), context.DeadlineExceeded)
	})
}

func TestTest_ends_at_an_error_or_a_deadline(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		do   func(t must.TB)
		want string
	}{
		"got":      {func(t must.TB) { t.Fatal("got ", must.Get(7, nil)(t)) }, "got 7"},
		"got none": {func(t must.TB) { must.Get(7, broken)(t) }, "broken"},
		"got two":  {func(t must.TB) { t.Fatal(must.Get2("got ", 7, nil)(t)) }, "got 7"},
		"got no 2": {func(t must.TB) { must.Get2(7, 8, broken)(t) }, "broken"},
		"happens":  {func(t must.TB) { n := 0; must.Happen(t, "3", func() bool { n++; return n == 3 }) }, "went on"},
		"prompt":   {func(t must.TB) { must.Prompt(t, "it", 2, falling(4)) }, "went on"},
		"late": {
			func(t must.TB) { must.Prompt(t, "it", 2, falling(5)) },
			"it took [4ns 3ns 2ns], want less than 2ns once",
		},
		"fails": {
			func(t must.TB) { must.Succeed(t, "rain", func() error { return broken }) },
			"waited in vain for rain: broken",
		},
		"never": {func(t must.TB) { must.Happen(t, "rain", func() bool { return false }) }, "waited in vain for rain"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, ended := &fake{}, make(chan struct{})
			go func() {
				defer close(ended)
				c.do(f)
				f.said = "went on"
			}()
			<-ended
			assert.Equal(t, c.want, f.said, "%s: the test", name)
		})
	}
}
