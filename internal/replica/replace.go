// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"encoding/json"
	"log/slog"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/observed"
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
	a, res := o.request(ctx, wanted, func(map[string]any) {})
	if a.Outcome == "" {
		return res
	}
	return o.after(ctx, do, a, wanted)
}

// overwrite replaces an object of somebody else, and takes over the fields of all managers. They include those that
// have the right value already: a later change of them would be a conflict. The object does not bear the label of the
// replica until it is applied, so that a process that dies in between begins again.
func (o replacing) overwrite(ctx context.Context, wanted map[string]any) result {
	foreign := runtime.DeepCopyJSON(wanted)
	metadata, _ := foreign["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	delete(labels, clean.Label)
	a, res := o.request(ctx, foreign, forget)
	if a.Outcome == "" {
		return res
	}
	if a.Outcome != write.Done {
		return o.after(ctx, plan.Change, a, wanted)
	}
	o.row.Actual.Version = a.ResourceVersion
	return o.adopt(ctx, wanted)
}

// forget makes the API server forget who manages the fields of an object. An object without any entry would get one for
// all its fields, of a manager that stands for what was there before the first apply.
func forget(object map[string]any) {
	metadata, _ := object["metadata"].(map[string]any)
	metadata["managedFields"] = []any{map[string]any{
		"manager": write.Manager, "operation": "Apply", "apiVersion": object["apiVersion"], "fieldsType": "FieldsV1",
		"fieldsV1": map[string]any{"f:metadata": map[string]any{"f:labels": map[string]any{"f:" + clean.Label: struct{}{}}}},
	}}
}

// request replaces the object by another one, to which it adds what belongs to the target, and what add adds. Without
// an answer, the result says what follows.
func (o replacing) request(
	ctx context.Context, wanted map[string]any, add func(map[string]any),
) (write.Answer, result) {
	now, err := o.target.Get(ctx, o.place())
	if err != nil || now.Outcome != write.Done {
		return write.Answer{}, later
	}
	actual, err := observed.Decode(now.Object)
	if err != nil {
		return write.Answer{}, later
	}
	o.res.Rules(o.row.Namespace).Retain(o.res.GroupResource(), wanted, actual)
	add(wanted)
	body, err := json.Marshal(wanted)
	if err != nil {
		return write.Answer{}, o.park(waiting.Invalid, err.Error())
	}
	put, err := o.target.Put(ctx, o.place(), body, types.UID(o.row.Actual.UID), o.row.Actual.Version)
	if err != nil {
		return write.Answer{}, later
	}
	if put.Outcome == write.Unappliable {
		return write.Answer{}, o.parkAWhile(waiting.Invalid, put.Message)
	}
	return put, settled
}
