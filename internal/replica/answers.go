// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/contents"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/fields"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/observed"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/plan"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/waiting"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/write"
)

// parkedBy has the reason for which an object waits, by what the API server answered to a write.
var parkedBy = map[write.Outcome]plan.Reason{
	write.NoNamespace: waiting.NoNamespace,
	write.Terminating: waiting.NoNamespace,
	write.NoResource:  waiting.NoResource,
	write.Denied:      waiting.Denied,
	write.Forbidden:   waiting.Forbidden,
	write.TooLarge:    waiting.TooLarge,
	write.Failed:      waiting.Failed,
}

// after does what follows from the answer to a write. Wanted is what was written; nil for a deletion.
func (o *object) after(ctx context.Context, do plan.Do, a write.Answer, wanted map[string]any) result {
	o.counts.Add(string(a.Outcome))
	switch a.Outcome { //nolint:exhaustive // parkedBy has the others
	case write.Done:
		return o.done(ctx, do, a, wanted)
	case write.Exists, write.Stale, write.Gone:
		return o.look(ctx, do, wanted)
	case write.Conflict:
		return o.yield(ctx, a, wanted)
	case write.Unappliable:
		return replacing{o}.replace(ctx, do, a, wanted)
	case write.Throttled, write.Unavailable:
		o.log.Debug("the target does not answer", slog.String("message", a.Message))
		return later
	case write.Invalid:
		return o.refused(ctx, do, a, wanted)
	}
	if why, known := parkedBy[a.Outcome]; known {
		return o.parkAWhile(why, a.Message)
	}
	return later
}

// done records what the API server has made of a write.
func (o *object) done(ctx context.Context, do plan.Do, a write.Answer, wanted map[string]any) result {
	object, err := observed.Decode(a.Object)
	if err != nil { // a deletion that is done answers with a Status, or with the object as it was
		o.table.Vanish(o.row.Key, o.row.Actual.UID)
		return again
	}
	actual := o.observer.Actual(o.res, o.row.Key, object)
	if do == plan.Delete || do == plan.Recreate {
		if !actual.Terminating {
			o.table.Vanish(o.row.Key, o.row.Actual.UID)
		} else {
			o.table.Fetched(o.id, o.row.Ends, actual)
		}
		return again
	}
	if o.res.Rules(o.row.Namespace).Status && wanted["status"] != nil {
		var res result
		if actual, res = (stating{o}).write(ctx, wanted, actual); res != settled {
			o.table.Fetched(o.id, o.row.Ends, actual)
			return res
		}
	}
	o.table.Written(o.id, o.row.Ends, actual)
	if do == plan.Verify && actual.Version != o.row.Actual.Version {
		o.contests.Add(o.id, time.Now())
	}
	if actual.Owner != keys.Ours || actual.Applied != o.row.Desired.Sequence || actual.Origin != o.row.Desired.Origin {
		return o.parkAWhile(waiting.Denied, "the API server does not keep the label and the annotations of the replica")
	}
	if len(o.yielded) > 0 {
		return o.park(waiting.Conflict, "other managers have "+strings.Join(o.yielded, ", ")+"; all else is written")
	}
	o.parked.Remove(o.id)
	return again
}

// look reads the object as the target has it: it is not as the replica knew it.
func (o *object) look(ctx context.Context, do plan.Do, wanted map[string]any) result {
	a, err := o.target.Get(ctx, o.place())
	if err != nil || a.Outcome != write.Done && a.Outcome != write.Gone {
		return later
	}
	if a.Outcome == write.Gone {
		o.table.Vanish(o.row.Key, "")
		return later // a namespace that is gone, or another leader, may be behind it
	}
	object, err := observed.Decode(a.Object)
	if err != nil {
		return later
	}
	actual := o.observer.Actual(o.res, o.row.Key, object)
	if actual.Owner != keys.Absent {
		o.table.Fetched(o.id, o.row.Ends, actual)
		return later
	}
	if o.row.Actual.Owner != keys.Absent {
		o.table.Vanish(o.row.Key, "")
	}
	if do == plan.Delete || do == plan.Recreate {
		return again
	}
	return o.existing(ctx, actual, wanted)
}

// existing does what the file says about an object that is there and is not ours.
func (o *object) existing(ctx context.Context, actual keys.Actual, wanted map[string]any) result {
	metadata, _ := wanted["metadata"].(map[string]any)
	switch {
	case o.isSource(actual, observed.Member(metadata, "annotations", clean.OriginUID)):
		return waits
	case actual.Terminating:
		return o.parkAWhile(plan.IsTerminating, "an object of somebody else")
	case o.cfg.Existing == plan.Adopt:
		o.row.Actual = actual
		return o.adopt(ctx, wanted)
	case o.cfg.Existing == plan.Overwrite:
		o.row.Actual = actual
		return replacing{o}.overwrite(ctx, wanted)
	default:
		return o.parkAWhile(waiting.Exists, "an object of somebody else has the name")
	}
}

// isSource reports whether an object of the target is the one that the log tells of, and not a copy. Then the replica
// ends: names of clusters can be wrong, uids cannot.
func (o *object) isSource(actual keys.Actual, uid string) bool {
	if uid == "" || actual.UID != uid {
		return false
	}
	o.end(fmt.Errorf("%w: it has %s %s with the uid that the log tells; name the cluster that is to be written to with "+
		"kubernetes.kubeconfig and kubernetes.context, or map each namespace to another one with into.namespaces",
		errOwnSource, o.res.GroupResource(), o.row.Key.String()))
	return true
}

// adopt takes an object over: fields that others own stay theirs, unless the file says force.
func (o *object) adopt(ctx context.Context, wanted map[string]any) result {
	o.upgraded = true
	a, err := o.target.Upgrade(ctx, o.place(), types.UID(o.row.Actual.UID), o.row.Actual.Version,
		o.row.Actual.Owner != keys.Ours)
	if err != nil {
		return later
	}
	if a.Outcome != write.Done {
		return o.after(ctx, plan.Change, a, wanted)
	}
	object, err := observed.Decode(a.Object)
	if err != nil {
		return later
	}
	o.row.Actual.Version = a.ResourceVersion
	// An apply without the ignored fields would remove those that the replica owns.
	o.res.Rules(o.row.Namespace).RetainIgnored(wanted, object)
	return o.apply(ctx, wanted)
}

// apply writes wanted over the object as it is known.
func (o *object) apply(ctx context.Context, wanted map[string]any) result {
	body, err := json.Marshal(wanted)
	if err != nil {
		return o.park(waiting.Invalid, err.Error())
	}
	a, err := o.send(ctx, plan.Change, body)
	if err != nil {
		return later
	}
	return o.after(ctx, plan.Change, a, wanted)
}

// yield leaves the fields that other managers own to them, and writes the others. What the replica has once written by
// PUT is its own.
func (o *object) yield(ctx context.Context, a write.Answer, wanted map[string]any) result {
	if !o.upgraded {
		return o.adopt(ctx, wanted)
	}
	for _, cause := range a.Causes {
		if strings.Contains(cause.Field, clean.Domain) {
			return o.parkAWhile(waiting.Conflict, a.Message) // without these the object is not the replica's
		}
	}
	left := fields.RemoveAll(wanted, a.Causes)
	if len(left) == 0 {
		return o.parkAWhile(waiting.Conflict, a.Message)
	}
	o.counts.Add("yielded")
	o.yielded = append(o.yielded, left...)
	return o.apply(ctx, wanted)
}

// refused says why the API server does not take the object, and creates it again if a field is immutable and the file
// says so.
func (o *object) refused(ctx context.Context, do plan.Do, a write.Answer, wanted map[string]any) result {
	if do == plan.Create || wanted == nil {
		return o.parkAWhile(waiting.Invalid, a.Message)
	}
	body, err := json.Marshal(wanted)
	if err != nil {
		return o.park(waiting.Invalid, err.Error())
	}
	try, err := o.target.TryCreate(ctx, o.place(), body)
	switch {
	case err != nil:
		return later
	case try.Outcome != write.Done:
		return o.parkAWhile(waiting.Invalid, a.Message)
	case o.cfg.Recreate && !contents.Has(o.res.GroupResource()):
		return ending{o}.recreate(ctx)
	default:
		return o.parkAWhile(waiting.Immutable, a.Message)
	}
}

// parkAWhile parks the object, and has it looked at again after a time that grows. What it waits for may have come
// before it was parked, and wakes only what is.
func (o *object) parkAWhile(why plan.Reason, detail string) result {
	if o.parked.Reason(o.id) != string(why) {
		o.queue.Forget(o.id, waiting.Look) // what it waited for before is gone
	}
	o.park(why, detail)
	if why == waiting.NoNamespace {
		o.contests.Forget(o.id) // it went with its namespace
	}
	switch {
	case why == waiting.NoNamespace && o.hasNamespace(&o.row):
		return later
	case why == waiting.NoResource:
		o.targets.catalog.Refresh() // it tells what is new
	}
	return waitsAWhile
}

// parkForOwner parks an object that waits for an owner, unless that has come meanwhile.
func (o *object) parkForOwner(wanted map[string]any, missing string) result {
	res := o.park(waiting.NoOwner, missing)
	if o.remap(wanted) == "" {
		return later
	}
	return res
}

// remap gives the owners of an object the uids that they have in the target. It returns the first owner that is not
// there yet, for a person.
func (o *object) remap(wanted map[string]any) (missing string) {
	if o.res.Rules(o.row.Namespace).Owned != clean.Remap {
		return ""
	}
	lacking := clean.Remapped(wanted, func(from types.UID, name string) (types.UID, bool) {
		row, found := o.table.ByOrigin(keys.OriginOf(string(from))) // other uids may have the same value
		found = found && row.Name == name && (row.Namespace == "" || row.Namespace == o.row.Namespace)
		return types.UID(row.Actual.UID), found && row.Actual.Owner == keys.Ours
	})
	if len(lacking) == 0 {
		return ""
	}
	return fmt.Sprintf("waits for its owner %v/%v", lacking[0]["kind"], lacking[0]["name"])
}
