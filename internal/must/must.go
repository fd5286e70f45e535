// SPDX-License-Identifier: Apache-2.0

// Package must ends a test that cannot go on: at an error that the test is not about, or when it has waited too long.
package must

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TB is the part of [testing.TB] that is needed; tests of rapid have it too.
type TB interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// Get returns the value of a call, or ends the test at the call's error: content := must.Get(os.ReadFile(name))(t).
func Get[T any](value T, err error) func(TB) T {
	return func(t TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// Get2 is [Get] for a call with two values.
func Get2[A, B any](a A, b B, err error) func(TB) (A, B) {
	return func(t TB) (A, B) {
		t.Helper()
		return a, Get(b, err)(t)
	}
}

// Err returns the error of a call whose other results do not matter: assert.Error(t, must.Err(os.ReadFile(name))).
func Err(results ...any) error {
	err, _ := results[len(results)-1].(error)
	return err
}

// OK is [Err] for a call that says whether it found something.
func OK(results ...any) bool { return results[len(results)-1].(bool) }

// Within returns a context that ends after a time, and at the latest with the test.
func Within(t testing.TB, limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// Prompt ends the test unless what is named takes less than a limit in one of three tries. A busy machine may delay a
// try; a wait of the code itself delays all of them.
func Prompt(t TB, what string, limit time.Duration, try func() time.Duration) {
	t.Helper()
	const tries = 3
	var took [tries]time.Duration
	for n := range took {
		if took[n] = try(); took[n] < limit {
			return
		}
	}
	t.Fatalf("%s took %v, want less than %v once", what, took, limit)
}

// Happen polls until what is named holds, and ends the test if that takes more than a minute.
func Happen(t TB, what string, holds func() bool) {
	t.Helper()
	poll(t, what, func() (bool, string) { return holds(), "" })
}

// Succeed is [Happen] for a check that returns why what is named does not hold yet.
func Succeed(t TB, what string, check func() error) {
	t.Helper()
	poll(t, what, func() (bool, string) {
		err := check()
		return err == nil, fmt.Sprintf(": %v", err)
	})
}

func poll(t TB, what string, holds func() (is bool, instead string)) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for {
		is, instead := holds()
		if is {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain for %s%s", what, instead)
		}
	}
}

// RunInBubble runs a subtest whose clock is that of [synctest.Test].
func RunInBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}
