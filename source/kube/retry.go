// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

// Backoff waits longer after every failure in a row: 100 ms, doubled up to 30 s, give or take a quarter. It never waits
// shorter than the API server asks for, which may ask for up to five minutes. The zero Backoff is ready. It is for one
// goroutine.
type Backoff struct {
	// Failures is how many there were in a row.
	Failures int
}

// LastDelay is the longest time between two tries, if the API server asks for no longer one.
const LastDelay = 30 * time.Second

const (
	firstDelay   = 100 * time.Millisecond
	longestAsked = 5 * time.Minute
)

// Reset says that something has succeeded.
func (b *Backoff) Reset() { b.Failures = 0 }

// Wait counts a failure, and waits. It returns ctx's error if that ended first.
func (b *Backoff) Wait(ctx context.Context, cause error) error {
	d := min(firstDelay<<min(b.Failures, 9), LastDelay)
	d += time.Duration((rand.Float64() - 0.5) * 0.5 * float64(d))
	b.Failures++
	if seconds, ok := apierrors.SuggestsClientDelay(cause); ok {
		d = max(d, min(time.Duration(seconds)*time.Second, longestAsked))
	}
	return pause.For(ctx, d)
}
