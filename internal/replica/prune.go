// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"log/slog"

	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/resyncs"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/selection"
)

// prune claims that what complete resyncs did not tell is gone. It is called once all that they told was learned.
func (r *run) prune(ctx context.Context) {
	for sc, state := range r.resyncs.Done() {
		r.pruning.Go(func() { r.pruneScope(ctx, sc, state) })
	}
}

// pruneScope prunes within one scope, in each stream of the target as soon as that is listed. A scope with a field
// selector cannot be told from others in the target: there nothing is pruned.
func (r *run) pruneScope(ctx context.Context, sc resyncs.Scope, state *resyncs.Resync) {
	res := r.selection.At(sc.Resource)
	if sc.FieldSelector != "" {
		r.log.Warn("a complete resync prunes nothing: its stream has a field selector", slog.String("resource", res.Resource))
		return
	}
	namespaces, _ := r.targets.listing.Namespaces(ctx, sc.Resource, !r.compares)
	for _, namespace := range namespaces {
		r.pruning.Go(func() { r.pruneStream(ctx, res, namespace, sc, state) })
	}
}

// pruneStream prunes what a scope of the source has in a stream of the target, which a namespace stands for.
func (r *run) pruneStream(
	ctx context.Context, res *selection.Resource, namespace string, sc resyncs.Scope, state *resyncs.Resync,
) {
	if !r.targets.listing.WaitListed(ctx, sc.Resource, namespace, !r.compares) {
		return
	}
	within, err := r.targets.within(ctx, res, namespace, sc)
	if err != nil {
		r.log.Warn("a complete resync prunes nothing", slog.String("resource", res.Resource),
			slog.String("namespace", namespace), slog.Any("reason", err))
		return
	}
	untold, ours := r.untold(sc, state, within)
	gone := state.Gone
	gone.At = r.deletes.Pruned(ours, gone.At) // all are counted before the first one is deleted
	for id, counts := range untold {
		if r.table.Prune(id, gone, state.Told) {
			r.queue.Add(id)
		} else if counts {
			r.deletes.CameBack(gone.At)
		}
	}
}

// untold returns what a resync did not tell, whether the target has that, and of how many objects it does.
func (r *run) untold(
	sc resyncs.Scope, state *resyncs.Resync, within func(keys.Key) bool,
) (untold map[keys.ID]bool, ours int) {
	untold = make(map[keys.ID]bool)
	for id, row := range r.table.Of(sc.Resource) {
		if (sc.Namespace == "" || row.Namespace == sc.Namespace) && within(row.Key) && r.table.Untold(id, state.Told) {
			if untold[id] = row.Actual.Owner != keys.Absent; untold[id] {
				ours++
			}
		}
	}
	return untold, ours
}
