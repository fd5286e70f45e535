// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/fields"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/observed"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/waiting"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/write"
)

// stating writes the status of objects.
type stating struct{ *object }

// write writes the status where it is a subresource. It returns the object as it is then, and what came of it:
// settled where nothing is left to be done. Fields of the status that others own stay theirs.
func (o stating) write(ctx context.Context, wanted map[string]any, actual keys.Actual) (keys.Actual, result) {
	a, err := o.apply(ctx, map[string]any{
		"apiVersion": wanted["apiVersion"], "kind": wanted["kind"], "status": wanted["status"],
		"metadata": map[string]any{"name": o.place().Name},
	}, actual)
	if err != nil {
		return actual, later
	}
	o.counts.Add("status-" + string(a.Outcome))
	switch a.Outcome {
	case write.Done:
		if object, err := observed.Decode(a.Object); err == nil {
			return o.observer.Actual(o.res, o.row.Key, object), settled
		}
		return actual, later
	case write.NoResource: // without the subresource the status is written with the rest
		return actual, settled
	case write.Conflict:
		return actual, o.parkAWhile(waiting.Conflict, a.Message)
	case write.Invalid, write.Denied, write.Forbidden, write.Failed, write.TooLarge:
		return actual, o.parkAWhile(waiting.Status, a.Message)
	default:
		return actual, later
	}
}

// apply applies a status, without the fields that others own.
func (o stating) apply(ctx context.Context, object map[string]any, actual keys.Actual) (write.Answer, error) {
	for {
		body, err := json.Marshal(object)
		if err != nil {
			return write.Answer{}, fmt.Errorf("encode the status: %w", err)
		}
		a, err := o.target.ApplyStatus(ctx, o.place(), body, types.UID(actual.UID), actual.Version, o.cfg.Force)
		if err != nil || a.Outcome != write.Conflict {
			return a, err
		}
		left := fields.RemoveAll(object, a.Causes)
		if len(left) == 0 {
			return a, nil
		}
		o.yielded = append(o.yielded, left...)
	}
}
