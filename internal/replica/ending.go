// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/contents"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/plan"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/waiting"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// ending deletes objects.
type ending struct{ *object }

// delete deletes an object of ours, if the guard allows it.
func (o ending) delete(ctx context.Context) result {
	if o.targets.listing.Busy() {
		return later // the limit depends on how many objects there are
	}
	if !o.deletions.Allowed(&o.row) {
		o.park(waiting.HeldDelete, "more objects went in an hour than the limit allows")
		return o.stop(ctx)
	}
	switch kept, err := o.kept(ctx); {
	case err != nil:
		return later
	case kept != "":
		return o.parkAWhile(waiting.NotEmpty, "it has "+kept+"; empty it, or delete it yourself")
	}
	a, err := o.target.Delete(ctx, o.place(), types.UID(o.row.Actual.UID), o.row.Actual.Version)
	if err != nil {
		return later
	}
	return o.after(ctx, plan.Delete, a, nil)
}

// kept returns what must not be deleted with the object, for a person. Objects of the replica that have ended, too, may
// go.
func (o ending) kept(ctx context.Context) (string, error) {
	if !contents.Has(o.res.GroupResource()) {
		return "", nil
	}
	offers, _ := o.targets.catalog.Now()
	return o.contents.Kept(ctx, o.res.GroupResource(), o.place().Name, offers,
		func(kind source.Resource, m *metav1.PartialObjectMetadata) bool {
			res := o.selection.Named(kind.GroupResource())
			if res == nil || m.Labels[clean.Label] != o.cfg.Name {
				return false
			}
			key, _ := res.Key(m.Namespace, m.Name)
			row, _, found := o.table.Find(key)
			return found && row.Actual.Owner == keys.Ours && o.cfg.Ends(row.Desired.Claim)
		})
}

// recreate deletes an object whose change the API server refuses. It is created again when it is gone.
func (o ending) recreate(ctx context.Context) result {
	a, err := o.target.Delete(ctx, o.place(), types.UID(o.row.Actual.UID), o.row.Actual.Version)
	if err != nil {
		return later
	}
	return o.after(ctx, plan.Recreate, a, nil)
}
