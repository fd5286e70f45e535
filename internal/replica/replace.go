// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"encoding/json"
	"log/slog"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/plan"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/waiting"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/write"
)

// replacing writes objects by PUT and POST.
type replacing struct{ *object }

// replace writes what apply cannot carry.
func (o replacing) replace(ctx context.Context, do plan.Do, a write.Answer, wanted map[string]any) result {
	o.log.Debug("apply cannot carry an object: it is replaced", slog.String("message", a.Message))
	if do == plan.Create {
		body, err := json.Marshal(wanted)
		if err != nil {
			return o.park(waiting.Invalid, err.Error())
		}
		posted, err := o.target.Post(ctx, o.place(), body)
		if err != nil {
			return later
		}
		if posted.Outcome == write.Unappliable {
			return o.parkAWhile(waiting.Invalid, posted.Message)
		}
		return o.after(ctx, plan.Create, posted, wanted)
	}
	return o.put(ctx, do, wanted)
}

// put replaces the object. What belongs to the target stays in it.
func (o replacing) put(ctx context.Context, do plan.Do, wanted map[string]any) result {
	a, err := o.target.Get(ctx, o.place())
	if err != nil || a.Outcome != write.Done {
		return later
	}
	actual, err := decode(a.Object)
	if err != nil {
		return later
	}
	o.res.rules(o.row.Namespace).Retain(o.res.GroupResource(), wanted, actual)
	body, err := json.Marshal(wanted)
	if err != nil {
		return o.park(waiting.Invalid, err.Error())
	}
	put, err := o.target.Put(ctx, o.place(), body, types.UID(o.row.Actual.UID), o.row.Actual.Version)
	if err != nil {
		return later
	}
	if put.Outcome == write.Unappliable {
		return o.parkAWhile(waiting.Invalid, put.Message)
	}
	return o.after(ctx, do, put, wanted)
}
