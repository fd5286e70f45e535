// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/selection"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
)

// learning takes over what the log says.
type learning struct{ *run }

// learn takes over a message of the log.
func (r learning) learn(ctx context.Context, m event.Message) error {
	defer func() { r.outstanding.Read(&m) }()
	e, err := event.Decode(m)
	if err != nil {
		r.counts.Add("no-event")
		return nil //nolint:nilerr // other programs' messages do not concern the replica
	}
	res, isNew := r.selection.Find(e)
	if res == nil {
		return nil
	}
	if err := e.OldFormat(); err != nil {
		return err
	}
	if r.perObject && !e.Op.Marker() && !r.cfg.HasOwnSubject(e) {
		return errShared
	}
	if isNew {
		r.targets.open(ctx, res)
	}
	switch e.Op { //nolint:exhaustive // others say nothing about objects
	case event.Added, event.Updated, event.Deleted, event.Rejected:
		r.learnObject(res, e)
	case event.Gap:
		r.learnGap(res, e)
	case event.ResyncStarted, event.ResyncCompleted:
		r.resyncs.Learn(res.Number, e)
	}
	if r.caughtUp {
		r.prune(ctx)
	}
	return nil
}

// learnObject takes over an event of an object.
func (r learning) learnObject(res *selection.Resource, e *event.Event) {
	key := keys.Key{Resource: res.Number, Namespace: e.Attr("namespace"), Name: e.Attr("name")}
	seq, err := sequence.Parse(e.Attr("sequence"))
	if err != nil || key.Name == "" || res.Entry(key.Namespace) == nil {
		return
	}
	desired := keys.Desired{
		Claim: selection.ClaimOf(e), Sequence: seq, Position: e.Position, Origin: keys.OriginOf(e.Attr("objectuid")),
		At: e.Time().Truncate(time.Millisecond),
	}
	if r.cfg.Ends(desired.Claim) {
		r.weigh(&desired, res, e)
		desired.At = r.deletes.Time(desired.At)
	}
	id, before, learned := r.table.Learn(key, desired, r.resyncs.Told(res.Number, e))
	if !learned {
		return
	}
	if desired.Claim.Exists() && desired.Origin != before.Origin {
		r.contests.Forget(id)
	}
	r.count(before, r.table.Get(id).Desired)
	r.bodies.Drop(before.Position)
	r.bodies.Put(e)
	if part := r.outstanding.Add(e, time.Now()); !r.table.Open(id, part) {
		r.outstanding.Handled(part) // by the older event of the object that is not handled
	}
	r.queue.Add(id)
}

// weigh decides whether an end counts by itself: not that of an object that the replica does not write, and not that of
// one that was not there some time before. What it goes by is in the event, so that a restart decides the same.
func (r learning) weigh(desired *keys.Desired, res *selection.Resource, e *event.Event) {
	object, _, ok := e.States()
	if !ok {
		return
	}
	if _, desired.LeftOut = res.Rules(e.Attr("namespace")).Skips(res.GroupResource(), object); desired.LeftOut {
		return
	}
	metadata, _ := object["metadata"].(map[string]any)
	text, _ := metadata["creationTimestamp"].(string)
	created, err := time.Parse(time.RFC3339, text)
	desired.Young = err == nil && desired.At.Sub(created) < r.cfg.MinAge
}

// count tells the guard of deletes what went and came back.
func (r learning) count(before, now keys.Desired) {
	was, is := r.weighs(before), r.weighs(now)
	if was && is && before.At.Equal(now.At) {
		return // it is told again
	}
	if was {
		r.deletes.CameBack(before.At)
	}
	if is {
		r.deletes.Went(now.At)
	}
}

// weighs reports whether an end counts for the limit of deletes.
func (r learning) weighs(d keys.Desired) bool {
	return r.cfg.Ends(d.Claim) && d.Weighs()
}
