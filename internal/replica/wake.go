// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/plan"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/waiting"
)

// wake has parked keys looked at when what they wait for may have come.
func (r *run) wake(ctx context.Context) {
	_, namespaces, _ := r.namespaces.Now()
	_, served := r.targets.catalog.Now()
	for ctx.Err() == nil {
		// What comes while keys are looked for, or in a pause, closes the channel that is taken before.
		select {
		case <-ctx.Done():
		case <-namespaces:
			_, namespaces, _ = r.namespaces.Now()
			r.lookAgain(waiting.NoNamespace, r.hasNamespace)
		case <-served:
			_, served = r.targets.catalog.Now()
			r.lookAgain(waiting.NoResource, all)
		case <-r.owners:
			r.lookAgain(waiting.NoOwner, all)
			_ = pause.For(ctx, time.Second) // ctx's error ends the loop
		}
	}
}

// lookAgain has the keys looked at that wait for a reason, if what they wait for may be there.
func (r *run) lookAgain(why plan.Reason, mayBe func(*keys.Row) bool) {
	for _, id := range r.parked.Waiting(why) {
		if row := r.table.Get(id); mayBe(&row) {
			r.queue.Add(id)
		}
	}
}

func all(*keys.Row) bool { return true }

// hasNamespace reports whether the target has the namespace that an object is to be in, as far as that is known.
func (r *run) hasNamespace(row *keys.Row) bool {
	target, _ := r.selection.At(row.Resource).Places().TargetNamespace(row.Namespace)
	ns, known, _ := r.namespaces.Get(target)
	return known && !ns.Terminating
}
