// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

// backoff waits longer after every failure in a row: 100 ms, doubled up to 30 s, give or take a quarter. It never waits
// shorter than the API server asks for, which may ask for up to five minutes.
type backoff struct{ failures int }

const (
	firstDelay   = 100 * time.Millisecond
	lastDelay    = 30 * time.Second
	longestAsked = 5 * time.Minute
)

func (b *backoff) reset() { b.failures = 0 }

// wait returns ctx's error if it ended first.
func (b *backoff) wait(ctx context.Context, cause error) error {
	d := min(firstDelay<<min(b.failures, 9), lastDelay)
	d += time.Duration((rand.Float64() - 0.5) * 0.5 * float64(d))
	b.failures++
	if seconds, ok := apierrors.SuggestsClientDelay(cause); ok {
		d = max(d, min(time.Duration(seconds)*time.Second, longestAsked))
	}
	return pause.For(ctx, d)
}
