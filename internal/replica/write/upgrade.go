// SPDX-License-Identifier: Apache-2.0

package write

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
)

// clientSide are the managers of what kubectl apply has written without --server-side, and of what was there before the
// first server-side apply.
var clientSide = []string{"kubectl-client-side-apply", "before-first-apply"}

// Upgrade makes the fields that [Target.Put] or [Target.Post] have written those of [Target.Apply]. Without it, an
// Apply would conflict with them, and would not remove what the body does not have any more. With adopt, the fields of
// kubectl's client-side apply become ours too, so that the next Apply removes those that its body does not have.
//
// It reads the object and then, if managedFields are to change, writes them. The answer is [Stale] if uid and
// resourceVersion are not those of the object. Done has the resourceVersion for the next change.
func (t *Target) Upgrade(
	ctx context.Context, o Object, uid types.UID, resourceVersion string, adopt bool,
) (Answer, error) {
	now, err := t.Get(ctx, o)
	if err != nil || now.Outcome != Done {
		return now, err
	}
	if now.UID != uid || now.ResourceVersion != resourceVersion {
		return Answer{Outcome: Stale, Code: now.Code, Message: "the object has another uid or resourceVersion"}, nil
	}
	var object metav1.PartialObjectMetadata
	if err := json.Unmarshal(now.Object, &object); err != nil {
		return Answer{}, fmt.Errorf("decode an object's metadata: %w", err)
	}
	managers := sets.New(Manager)
	if adopt {
		managers.Insert(clientSide...)
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(&object, managers, Manager)
	if err != nil {
		return Answer{}, fmt.Errorf("upgrade managedFields: %w", err)
	}
	if patch == nil {
		return now, nil
	}
	r := t.request(http.MethodPatch, o).SetHeader("Content-Type", string(types.JSONPatchType)).
		Param("fieldManager", Manager).Body(patch)
	return t.answer(ctx, putting, o, r)
}
