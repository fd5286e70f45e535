// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/bodies"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/contents"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/listing"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/observed"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/plan"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/selection"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/waiting"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/write"
)

// result is what came of a key.
type result uint8

const (
	// settled: all is as it shall be.
	settled result = iota
	// again: the key is looked at again at once.
	again
	// later: it is looked at again after a wait, which grows.
	later
	// waits: it is looked at again when something changes.
	waits
	// waitsAWhile: also without that, after a time that grows.
	waitsAWhile
)

// reconcile brings one object into the state that the log describes, or parks it.
func (r *run) reconcile(ctx context.Context, id keys.ID) result {
	row := r.table.Get(id)
	o := &object{run: r, id: id, row: row, res: r.selection.At(row.Resource)}
	switch r.targets.state(o.res, row.Key) {
	case listing.Unserved:
		if !row.Desired.Claim.Exists() {
			return o.settle()
		}
		o.contests.Forget(id) // it went with its definition
		return o.park(waiting.NoResource, "the target does not serve it")
	case listing.Listing:
		return waits // the end of the list looks at all keys
	case listing.Listed:
	}
	if r.stopped(&row) {
		return r.stop(ctx) // release looks at all keys
	}
	switch action := o.decide(row.Accepted); action.Do {
	case plan.Park:
		if row.Actual.Owner == keys.Detached {
			return o.detached(ctx, action.Why)
		}
		return o.park(action.Why, "")
	case plan.Delete:
		return ending{o}.delete(ctx)
	case plan.Create, plan.Change, plan.Verify, plan.Recreate:
		return o.write(ctx, action.Do)
	default:
		return o.settle()
	}
}

// decide returns what is to be done with the object. What others have put into an object goes with it, so one that has
// others is changed instead of made again.
func (o *object) decide(accepted bool) plan.Action {
	action := plan.Decide(o.row.Desired, o.row.Actual, accepted, o.cfg.Config)
	if action.Do == plan.Recreate && contents.Has(o.res.GroupResource()) {
		action.Do = plan.Change
	}
	return action
}

// settle says that all is as it shall be with the object, except for the fields that were left to other managers. They
// are told until they are right, or written.
func (o *object) settle() result {
	if o.row.Actual.Owner != keys.Ours || o.parked.Reason(o.id) != string(waiting.Conflict) {
		o.parked.Remove(o.id)
	}
	o.handled(true)
	return settled
}

// park leaves the object until something changes.
func (o *object) park(why plan.Reason, detail string) result {
	if o.parked.Put(o.id, why, detail, time.Now()) {
		o.said.Do(func() {
			o.log.Info("an object waits", slog.String("reason", string(why)), slog.String("detail", detail),
				slog.String("resource", o.res.GroupResource().String()), slog.String("namespace", o.row.Namespace),
				slog.String("name", o.row.Name))
		})
	}
	o.handled(why != waiting.NoOwner)
	return waits
}

// handled says that nothing more is to be done about the object until something changes. Unless it waits for an owner
// itself, others may wait for it, and its body is not needed.
func (o *object) handled(done bool) {
	if part := o.table.Handled(o.id, o.row.Desired.Position); part != 0 {
		o.outstanding.Handled(part)
	}
	if !done {
		return
	}
	o.bodies.Drop(o.row.Desired.Position)
	if o.row.Actual.Owner != keys.Ours {
		return
	}
	select {
	case o.owners <- struct{}{}:
	default:
	}
}

// detached parks an object that bears the label of the replica or the origin, but not both. Who reads the target may
// not see what becomes of it.
func (o *object) detached(ctx context.Context, why plan.Reason) result {
	a, err := o.target.Get(ctx, o.place())
	if err != nil {
		return later
	}
	if a.Outcome == write.Gone {
		o.table.Vanish(o.row.Key, o.row.Actual.UID)
		return again
	}
	if object, err := observed.Decode(a.Object); err == nil {
		actual := o.observer.Actual(o.res, o.row.Key, object)
		if actual.Owner == keys.Absent {
			o.table.Vanish(o.row.Key, o.row.Actual.UID)
			return again
		}
		if _, changed := o.table.Observe(o.row.Key, actual); changed && actual.Owner == keys.Ours {
			return again
		}
	}
	if wanted, _, res := o.desired(ctx); wanted == nil {
		return res // the source's object is left out
	}
	return o.parkAWhile(why, "")
}

// object is one that a worker is at.
type object struct {
	*run
	id  keys.ID
	row keys.Row
	res *selection.Resource
	// version is that of what is written; empty where nothing is.
	version string
	// yielded are the fields that were left to other managers.
	yielded []string
	// leftOut: the source's object is, as its event says.
	leftOut bool
	// upgraded: managedFields say that what the replica has once written by PUT is its own.
	upgraded bool
}

// place returns where the object is in the target.
func (o *object) place() write.Object {
	target, _ := placeOf(o.res, o.row.Key)
	version := cmp.Or(o.version, o.targets.listing.Version(o.row.Resource), o.res.Version)
	return write.Object{
		Resource: o.res.GroupResource().WithVersion(version), Namespace: target.Namespace, Name: target.Name,
	}
}

// write brings the object into the state of its event.
func (o *object) write(ctx context.Context, do plan.Do) result {
	wanted, uid, res := o.desired(ctx)
	if wanted == nil {
		if do == plan.Recreate && o.cfg.Deletes && o.leftOut {
			// The log has no end of what was copied, which counts all the same.
			o.deletions.CountEnd(&o.row, o.deletes.Time(o.row.Desired.At))
			return ending{o}.delete(ctx)
		}
		return res
	}
	if do == plan.Verify && o.right(ctx, wanted) {
		return again
	}
	fought := do == plan.Verify || do == plan.Create || o.row.Actual.Owner == keys.Detached
	if fought && o.contests.Has(o.id, time.Now()) {
		return o.parkAWhile(waiting.Contested, "somebody changes it back again and again")
	}
	clean.Annotate(wanted, o.res.Origin(o.cfg.Cluster, o.row.Namespace, o.row.Name), uid, o.row.Desired.Sequence.String())
	if o.row.Actual.Owner == keys.Detached {
		return o.existing(ctx, o.row.Actual, wanted)
	}
	if a := &o.row.Actual; (a.Replaced || a.OwnsIgnored) && (do == plan.Change || do == plan.Verify) {
		return o.adopt(ctx, wanted) // an apply alone would keep what the source has no more, or remove what is ignored
	}
	body, err := json.Marshal(wanted)
	if err != nil {
		return o.park(waiting.Invalid, err.Error())
	}
	answer, err := o.send(ctx, do, body)
	if err != nil {
		return later
	}
	return o.after(ctx, do, answer, wanted)
}

// right reports whether the target's object, which has the right sequence, says all that it shall say. Then its content
// is accepted.
func (o *object) right(ctx context.Context, wanted map[string]any) bool {
	if o.row.Actual.Digest == clean.Digest(wanted) {
		o.parked.Remove(o.id)
		return o.table.Accept(o.id, o.row.Actual.Digest)
	}
	a, err := o.target.Get(ctx, o.place())
	if err != nil || a.Outcome != write.Done {
		return false
	}
	object, err := observed.Decode(a.Object)
	if err != nil {
		return false
	}
	actual := o.observer.Actual(o.res, o.row.Key, object)
	if actual.Owner != keys.Ours || actual.Applied != o.row.Desired.Sequence || !clean.Covers(wanted, object) {
		return false
	}
	o.parked.Remove(o.id)
	return o.table.Fetched(o.id, o.row.Ends, actual) && o.table.Accept(o.id, actual.Digest)
}

// desired returns the object as it shall be in the target, without the annotations of its origin, and its uid in the
// source. It returns nil where it cannot be written, and what came of it.
func (o *object) desired(ctx context.Context) (wanted map[string]any, uid string, res result) {
	e, err := o.bodies.Get(ctx, o.row.Desired.Position)
	switch {
	case errors.Is(err, bodies.ErrGone):
		return nil, "", o.park(waiting.BodyMissing, "the log has removed the event; a resync publishes it again")
	case err != nil:
		return nil, "", later
	case !o.res.Tells(e, &o.row):
		return nil, "", o.parkAWhile(waiting.BodyMissing, "the log has another event in its place")
	}
	whole, redacted := o.bodies.Whole(ctx, e)
	switch {
	case whole == nil:
		return nil, "", o.parkAWhile(waiting.BodyMissing, "the log does not tell what the patch applies to")
	case redacted:
		return nil, "", o.park(plan.HasRedactions, "")
	}
	wanted, _, _ = whole.States()
	o.version = e.Version
	rules := o.res.Rules(o.row.Namespace)
	if why, skip := rules.Skips(o.res.GroupResource(), wanted); skip {
		copied := o.row.Actual.Owner == keys.Ours && o.row.Actual.Origin == o.row.Desired.Origin
		if copied && rules.Replicated(o.res.GroupResource(), wanted) {
			return nil, "", o.park(waiting.Circular, "both are copies: take the label off the one that is the original")
		}
		o.leftOut = true
		return nil, "", o.park(waiting.LeftOut, why)
	}
	if err := rules.Object(o.res.GroupResource(), wanted); err != nil {
		return nil, "", o.park(waiting.Invalid, err.Error())
	}
	if missing := o.remap(wanted); missing != "" {
		return nil, "", o.parkForOwner(wanted, missing)
	}
	return wanted, e.Attr("objectuid"), settled
}

// send makes the request for a decision.
func (o *object) send(ctx context.Context, do plan.Do, body []byte) (write.Answer, error) {
	a := o.row.Actual
	switch do {
	case plan.Create:
		return o.target.Create(ctx, o.place(), body)
	case plan.Recreate:
		return o.target.Delete(ctx, o.place(), types.UID(a.UID), a.Version)
	default:
		return o.target.Apply(ctx, o.place(), body, types.UID(a.UID), a.Version, o.cfg.Force)
	}
}
