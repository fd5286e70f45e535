// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/guard"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/selection"
)

// learnGap takes over a marker of a gap.
func (r learning) learnGap(res *selection.Resource, e *event.Event) {
	var data struct {
		Namespace, Cause string
		Epoch            uint64
	}
	if json.Unmarshal(e.Data, &data) != nil || data.Cause != "restored" && data.Cause != "rebuilt" {
		return
	}
	r.epochs.Note(guard.Part{Resource: res.Number, Namespace: data.Namespace}, data.Epoch)
	r.checkEpochs(res)
}

// checkEpochs stops the replica if any object of a resource says so, before others are written; nil is all resources.
func (r *run) checkEpochs(res *selection.Resource) {
	rows := r.table.All()
	if res != nil {
		rows = r.table.Of(res.Number)
	}
	for _, row := range rows {
		if r.stopped(&row) {
			return
		}
	}
}

// stopped reports whether the replica must not write because the source began with other versions, and says so once.
func (r *run) stopped(row *keys.Row) bool {
	stops, isNew := r.epochs.Stops(row)
	if isNew {
		r.log.Error("the source's versions begin again: the replica stops until it is resumed",
			slog.Uint64("epoch", r.epochs.Holds()), slog.String("object", row.Name))
	}
	return stops
}

// stop stores what the guards hold. It returns what comes of an object that they hold.
func (r *run) stop(ctx context.Context) result {
	isNew, err := r.keeper.Save(ctx)
	if err != nil {
		r.said.Do(func() { r.log.Warn("it cannot be stored that the replica is held", slog.Any("error", err)) })
		return later
	}
	if isNew && r.deletes.Held() {
		r.log.Warn("more objects went in an hour than the limit allows: deletes are held until the replica is resumed")
	}
	return waits
}

// saveLeft stores how much is left of the deletes that a person has released, once that is known.
func (r *run) saveLeft(ctx context.Context) {
	if !r.hasBegun() || r.targets.listing.Busy() {
		return
	}
	if err := r.keeper.SaveLeft(ctx, r.deletions.Left); err != nil && ctx.Err() == nil {
		r.said.Do(func() { r.log.Warn("it cannot be stored what is left of released deletes", slog.Any("error", err)) })
	}
}
