// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/canary"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
)

// noticed is how long a new object may take to reach the log when nothing is broken.
const noticed = time.Minute

// awaitCanaries creates an object in each stream and waits until the log has all of them. A bridge that hangs is found
// here, before the next fault restarts it. When says what happened before.
func (r *round) awaitCanaries(ctx context.Context, when string) error {
	r.canaries++
	return r.awaitCanary(ctx, when+": the log", r.world.ReadLog, r.subject.streams)
}

// awaitSecondCanaries waits until the log of the second pipeline has those that were created last, too. A pipeline that
// was not read yet is well by all that it tells of itself.
func (r *round) awaitSecondCanaries(ctx context.Context, when string) error {
	if r.second == nil {
		return nil
	}
	streams := slices.DeleteFunc(r.second.Selection.Streams(world.Cluster), func(s oracle.Stream) bool {
		return !slices.ContainsFunc(r.subject.streams, func(o oracle.Stream) bool {
			return o.Resource == s.Resource && o.Namespace == s.Namespace
		})
	})
	return r.awaitCanary(ctx, when+": the log of the second pipeline", r.world.ReadSecondLog, streams)
}

// awaitCanary waits until a log has the object of each stream that has the last number.
func (r *round) awaitCanary(
	ctx context.Context, log string, read func(context.Context) ([]rig.Message, error), streams []oracle.Stream,
) error {
	defer r.spend("canaries")()
	name := fmt.Sprintf("canary-%d", r.canaries)
	missing := slices.Clone(streams)
	var failed error
	bounded, cancel := context.WithTimeout(ctx, noticed)
	defer cancel()
	for wait := 50 * time.Millisecond; bounded.Err() == nil; wait = min(2*wait, time.Second) {
		missing, failed = canary.Missing(bounded, r.world, read, whole, name, missing)
		if failed == nil && len(missing) == 0 {
			return nil
		}
		_ = pause.For(bounded, wait) // the loop ends with it
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return r.world.Unsettled(fmt.Sprintf("%s lacks %s after %s: %v %v", log, name, noticed, missing, failed))
}

// misses reports whether a fault, or one of two, was not injected.
func misses(f world.Fault, injected []string) bool {
	return len(injected) < 1+strings.Count(f.Name, together)
}
