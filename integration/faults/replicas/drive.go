// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
)

// names is how many objects of each resource there may be in each namespace.
var names = map[schema.GroupVersionResource]int{configMaps: 10, secrets: 6, widgets: 6}

func (w *world) anyKey() key {
	r := pick(w.random, resources)
	return key{r, pick(w.random, w.sources()), fmt.Sprintf("%s%d", r.Resource[:1], w.random.n(names[r]))}
}

// value differs from all others.
var values atomic.Int64

func newValue(by string) string { return fmt.Sprintf("%s-%d", by, values.Add(1)) }

// drive changes the source until ctx ends.
func (w *world) drive(ctx context.Context, every time.Duration) (changes int) {
	for pause.For(ctx, w.random.between(0, 2*every)) == nil {
		k := w.anyKey()
		objects := w.from.Resource(k.resource).Namespace(k.namespace)
		if w.changeSource(ctx, objects, k) == nil {
			changes++
		}
	}
	return changes
}

func (w *world) changeSource(ctx context.Context, objects dynamic.ResourceInterface, k key) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	create := func() error {
		_, err := objects.Create(ctx, w.newObject(k), metav1.CreateOptions{})
		return err
	}
	got, err := objects.Get(ctx, k.name, metav1.GetOptions{})
	if err != nil {
		return create()
	}
	if w.rules.Replicated(k.resource.GroupResource(), got.Object) {
		return errCopied
	}
	if got.GetDeletionTimestamp() != nil {
		return patch(ctx, objects, k.name, map[string]any{"metadata": map[string]any{"finalizers": nil}})
	}
	switch n := w.random.n(100); {
	case n < 12:
		return objects.Delete(ctx, k.name, metav1.DeleteOptions{})
	case n < 20:
		if err := objects.Delete(ctx, k.name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		return create()
	case n < 32:
		return patch(ctx, objects, k.name, map[string]any{"metadata": map[string]any{
			"labels":      map[string]any{"app": pick(w.random, []any{"a", "b", nil}), "tier": pick(w.random, []any{"x", nil})},
			"annotations": map[string]any{"example.com/note": pick(w.random, []any{newValue("note"), nil})},
		}})
	case n < 60:
		next := w.newObject(k) // it has other members than before
		next.SetResourceVersion(got.GetResourceVersion())
		_, err = objects.Update(ctx, next, metav1.UpdateOptions{})
		return err
	default:
		return patch(ctx, objects, k.name, content(k.resource, map[string]any{"value": text(k.resource, newValue("source"))}))
	}
}

// content puts members where a resource has them.
func content(r schema.GroupVersionResource, members map[string]any) map[string]any {
	if r == widgets {
		return map[string]any{"spec": members}
	}
	return map[string]any{"data": members}
}

func text(r schema.GroupVersionResource, value string) string {
	if r == secrets {
		return base64.StdEncoding.EncodeToString([]byte(value))
	}
	return value
}

func patch(ctx context.Context, objects dynamic.ResourceInterface, name string, of map[string]any) error {
	body, err := json.Marshal(of)
	if err != nil {
		return err
	}
	_, err = objects.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
	return err
}

// newObject returns an object of the source.
func (w *world) newObject(k key) *unstructured.Unstructured {
	members := map[string]any{"value": text(k.resource, newValue("source"))}
	for _, name := range []string{"k0", "k1", "k2"} {
		if w.random.n(2) == 0 {
			members[name] = text(k.resource, pick(w.random, []string{"one", "two", newValue(name)}))
		}
	}
	if k.resource == widgets {
		members["list"] = []any{map[string]any{"n": int64(w.random.n(9))}, "text", w.random.n(2) == 0}
		members["nested"] = map[string]any{"deep": map[string]any{"value": newValue("deep")}}
		if w.random.n(10) == 0 {
			members["password"] = newValue("password")
		}
	}
	o := &unstructured.Unstructured{Object: content(k.resource, members)}
	o.SetAPIVersion(k.resource.GroupVersion().String())
	o.SetKind(kindOf(k.resource))
	o.SetName(k.name)
	switch w.random.n(20) {
	case 0:
		o.SetFinalizers([]string{"example.com/waits"})
	case 1:
		controls := true
		o.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "Deployment", Name: "owner", UID: "0a0a0a0a-0000-4000-8000-000000000001",
			Controller: &controls,
		}})
	case 2:
		if k.resource != widgets {
			o.Object["immutable"] = true
		}
	}
	if w.random.n(3) == 0 {
		o.SetLabels(map[string]string{"app": pick(w.random, []string{"a", "b"})})
	}
	return o
}

// targetOf are the objects of the target among which those of a key are.
func (w *world) targetOf(k key) dynamic.ResourceInterface {
	return w.to.Resource(k.resource).Namespace(w.namespaces[k.namespace])
}

// interfere has people change the target until ctx ends.
func (w *world) interfere(ctx context.Context, every time.Duration) {
	edits, detached := make(map[key]int), 0
	for pause.For(ctx, w.random.between(0, 2*every)) == nil {
		k := w.anyKey()
		if edits[k] >= 2 && w.random.n(20) != 0 {
			continue // it would be contested
		}
		w.person(ctx, k, edits, &detached)
	}
}

// The names of what people add to objects of the replica.
const (
	personsMember = "person"
	personsLabel  = "person.example.com/added"
	// personsApp is the value that people give the label app.
	personsApp = "person"
)

// person changes one object.
func (w *world) person(ctx context.Context, k key, edits map[key]int, detached *int) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	objects := w.targetOf(k)
	got, err := objects.Get(ctx, k.name, metav1.GetOptions{})
	if err != nil {
		if w.random.n(4) == 0 {
			o := w.newObject(k)
			o.SetFinalizers(nil) // no controller would remove them
			_, err = objects.Create(ctx, o, metav1.CreateOptions{})
			w.told(err, "a person creates %s", k)
		}
		return
	}
	if !w.isOurs(k, got.GetLabels(), got.GetAnnotations()) {
		if w.random.n(3) == 0 {
			w.told(objects.Delete(ctx, k.name, metav1.DeleteOptions{}), "a person deletes %s, which is not the replica's", k)
		} else {
			_ = patch(ctx, objects, k.name, content(k.resource, map[string]any{"value": text(k.resource, newValue("person"))}))
		}
		return
	}
	value := text(k.resource, newValue("person"))
	switch n := w.random.n(100); {
	case n < 30:
		edits[k]++
		w.told(patch(ctx, objects, k.name, content(k.resource, map[string]any{"value": value})), "a person edits %s", k)
	case n < 40:
		edits[k]++
		w.told(patch(ctx, objects, k.name, content(k.resource, map[string]any{"value": nil, "k0": nil})),
			"a person removes members of %s", k)
	case n < 50:
		edits[k]++
		w.told(patch(ctx, objects, k.name, map[string]any{"metadata": map[string]any{
			"labels": map[string]any{"app": personsApp},
		}}), "a person labels %s", k)
	case n < 60:
		_ = patch(ctx, objects, k.name, content(k.resource, map[string]any{personsMember: value}))
	case n < 68:
		_ = patch(ctx, objects, k.name, map[string]any{"metadata": map[string]any{
			"labels": map[string]any{personsLabel: "yes"},
		}})
	case n < 90:
		w.told(objects.Delete(ctx, k.name, metav1.DeleteOptions{}), "a person deletes %s", k)
	default:
		if *detached++; *detached > 5 {
			return
		}
		how := pick(w.random, []map[string]any{
			{"labels": map[string]any{label: nil}},
			{"annotations": map[string]any{origin: nil}},
			{"labels": map[string]any{label: "other"}},
			{"labels": map[string]any{label: nil}, "annotations": map[string]any{origin: nil}},
		})
		w.told(patch(ctx, objects, k.name, map[string]any{"metadata": how}), "a person detaches %s by %v", k, how)
	}
}

// told notes what succeeded.
func (w *world) told(err error, format string, args ...any) {
	if err == nil {
		w.note(format, args...)
	}
}
