// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/canary"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
)

// noticed is how long a new object may take to reach the log when nothing is broken.
const noticed = time.Minute

// awaitCanaries creates an object in each stream and waits until the log has all of them. A bridge that hangs is found
// here, before the next fault restarts it. When says what happened before.
func (r *round) awaitCanaries(ctx context.Context, when string) error {
	defer r.spend("canaries")()
	r.canaries++
	name := fmt.Sprintf("canary-%d", r.canaries)
	missing := slices.Clone(r.subject.streams)
	var failed error
	bounded, cancel := context.WithTimeout(ctx, noticed)
	defer cancel()
	for wait := 50 * time.Millisecond; bounded.Err() == nil; wait = min(2*wait, time.Second) {
		missing, failed = canary.Missing(bounded, r.world, whole, name, missing)
		if failed == nil && len(missing) == 0 {
			return nil
		}
		_ = pause.For(bounded, wait) // the loop ends with it
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return r.world.Unsettled(fmt.Sprintf("%s: %s is not in the log after %s: %v %v",
		when, name, noticed, missing, failed))
}

// misses reports whether a fault, or one of two, was not injected.
func misses(f world.Fault, injected []string) bool {
	return len(injected) < 1+strings.Count(f.Name, together)
}
