// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"fmt"
	"testing"
	"time"
)

// Patience is how long a test waits for something that should be there at once, on a busy machine.
func Patience() time.Duration { return 90 * time.Second }

// Must fails the test if there is an error. As it ends the goroutine, it is for the test's own.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Poll asks until ok holds, and fails the test with what there is instead when [Patience] ends. It is for the test's
// own goroutine.
func Poll(t testing.TB, what string, ok func() (holds bool, instead string)) {
	t.Helper()
	poll(t, nil, what, ok)
}

// poll is Poll that also fails as soon as a process ends.
func poll(t testing.TB, b *Bridge, what string, ok func() (holds bool, instead string)) {
	t.Helper()
	var ended <-chan struct{}
	if b != nil {
		ended = b.Ended()
	}
	deadline := time.NewTimer(Patience())
	defer deadline.Stop()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		holds, instead := ok()
		if holds {
			return
		}
		select {
		case <-time.After(pause):
		case <-ended:
			t.Fatalf("waiting for %s, but the bridge ended with %v; %s", what, b.State(), instead)
		case <-deadline.C:
			t.Fatalf("waited in vain for %s; %s", what, instead)
		}
	}
}

// Try is [Poll] for a check that returns an error while it does not hold.
func Try(t testing.TB, what string, check func() error) {
	t.Helper()
	Poll(t, what, func() (bool, string) {
		err := check()
		return err == nil, fmt.Sprint(err)
	})
}
