// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// writer is the only one that changes the objects of its slots.
type writer struct {
	driver  *Driver
	n       int
	rand    *rand.Rand
	slots   []*slot
	changes int
}

// slot is one name, and what its writer thinks of it.
type slot struct {
	kind            Kind
	namespace, name string

	exists, held, ending bool
	watched              string
}

func (w *writer) of(s *slot) dynamic.ResourceInterface {
	return w.driver.objects(s.kind, s.namespace)
}

func (d *Driver) objects(k Kind, namespace string) dynamic.ResourceInterface {
	if !k.Namespaced {
		return d.client.Resource(k.Resource)
	}
	return d.client.Resource(k.Resource).Namespace(namespace)
}

func (w *writer) run(ctx context.Context) error {
	for len(w.slots) > 0 && !w.driver.done() {
		s := w.slots[w.rand.IntN(len(w.slots))]
		if w.rand.IntN(2) == 0 { // some objects change much more often than others
			s = w.slots[w.rand.IntN(min(3, len(w.slots)))]
		}
		err := w.change(ctx, s)
		if errors.Is(err, errRefused) {
			err = w.look(ctx, s)
		}
		if err != nil && !errors.Is(err, errRefused) {
			return fmt.Errorf("change %s %s/%s: %w", s.kind.Kind, s.namespace, s.name, err)
		}
	}
	return nil
}

// change does the next thing to a slot, or several.
func (w *writer) change(ctx context.Context, s *slot) error {
	dice := w.rand.IntN(100)
	switch {
	case !s.exists:
		return w.create(ctx, s)
	case s.ending && dice < 50:
		return w.finalize(ctx, s)
	case s.ending || dice < 45:
		return w.update(ctx, s)
	case dice < 60:
		return w.burst(ctx, s, 3+w.rand.IntN(10))
	case dice < 75:
		return w.relabel(ctx, s)
	case dice < 82:
		return w.hold(ctx, s)
	case dice < 92:
		return w.delete(ctx, s)
	default:
		return w.recreate(ctx, s)
	}
}

func (w *writer) create(ctx context.Context, s *slot) error {
	content, annotations := w.content(s.kind)
	s.watched, s.held = yesOrNo(w.rand.IntN(2) == 0), w.rand.IntN(8) == 0
	meta := map[string]any{"name": s.name, "labels": map[string]any{Label: s.watched}, "annotations": annotations}
	if s.held {
		meta["finalizers"] = []any{Finalizer}
	}
	o := map[string]any{"apiVersion": s.kind.Resource.GroupVersion().String(), "kind": s.kind.Kind, "metadata": meta}
	maps.Copy(o, content)
	err := w.driver.call(ctx, func(ctx context.Context) error {
		_, err := w.of(s).Create(ctx, &unstructured.Unstructured{Object: o}, createOptions)
		return err
	})
	if err != nil {
		return err
	}
	s.exists, s.ending = true, false
	w.driver.count(func(c *Counts) { c.Created++ })
	return nil
}

func yesOrNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

func (w *writer) update(ctx context.Context, s *slot) error {
	patch, annotations := w.content(s.kind)
	patch["metadata"] = map[string]any{"annotations": annotations}
	if err := w.patch(ctx, s, patch); err != nil {
		return err
	}
	w.driver.count(func(c *Counts) { c.Updated++ })
	return nil
}

func (w *writer) burst(ctx context.Context, s *slot, n int) error {
	for range n {
		if err := w.update(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// relabel moves the object into the selection or out of it.
func (w *writer) relabel(ctx context.Context, s *slot) error {
	s.watched = yesOrNo(s.watched != "yes")
	if err := w.patchMeta(ctx, s, "labels", map[string]any{Label: s.watched}); err != nil {
		return err
	}
	w.driver.count(func(c *Counts) { c.Relabelled++ })
	return nil
}

// hold puts the finalizer on, or takes it off.
func (w *writer) hold(ctx context.Context, s *slot) error {
	s.held = !s.held
	finalizers := []any{}
	if s.held {
		finalizers = append(finalizers, Finalizer)
	}
	if err := w.patchMeta(ctx, s, "finalizers", finalizers); err != nil {
		return err
	}
	w.driver.count(func(c *Counts) { c.Finalized++ })
	return nil
}

// finalize ends an object whose deletion waits.
func (w *writer) finalize(ctx context.Context, s *slot) error {
	if err := w.patchMeta(ctx, s, "finalizers", nil); err != nil {
		return err
	}
	s.exists, s.held, s.ending = false, false, false
	w.driver.count(func(c *Counts) { c.Finalized++ })
	return nil
}

func (w *writer) delete(ctx context.Context, s *slot) error {
	err := w.driver.call(ctx, func(ctx context.Context) error {
		return w.of(s).Delete(ctx, s.name,
			metav1.DeleteOptions{})
	})
	if err != nil {
		return err
	}
	s.exists, s.ending = s.held, s.held
	w.driver.count(func(c *Counts) { c.Deleted++ })
	return nil
}

// recreate gives the name to another object at once, where nothing keeps the first one.
func (w *writer) recreate(ctx context.Context, s *slot) error {
	if err := w.delete(ctx, s); err != nil || s.ending {
		return err
	}
	return w.create(ctx, s)
}

func (w *writer) patchMeta(ctx context.Context, s *slot, member string, value any) error {
	return w.patch(ctx, s, map[string]any{"metadata": map[string]any{member: value}})
}

func (w *writer) patch(ctx context.Context, s *slot, patch map[string]any) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	return w.driver.call(ctx, func(ctx context.Context) error {
		_, err := w.of(s).Patch(ctx, s.name, types.MergePatchType, body,
			metav1.PatchOptions{FieldManager: createOptions.FieldManager})
		return err
	})
}

// look finds out what a slot is, after an answer that did not fit: an earlier answer was lost, or etcd was restored.
func (w *writer) look(ctx context.Context, s *slot) error {
	return w.driver.call(ctx, func(ctx context.Context) error {
		o, err := w.of(s).Get(ctx, s.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			s.exists, s.held, s.ending = false, false, false
			return nil
		}
		if err == nil {
			s.exists, s.ending = true, o.GetDeletionTimestamp() != nil
			s.held, s.watched = len(o.GetFinalizers()) > 0, o.GetLabels()[Label]
		}
		return err
	})
}
