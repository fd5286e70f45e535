// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/drive"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
)

// ends creates an object in each stream, and returns how to ask whether all of them are in the log: then everything before is.
func (r *round) ends(ctx context.Context) func() (bool, string) {
	made := map[int]bool{}
	return func() (bool, string) {
		for i, s := range r.subject.streams {
			if made[i] {
				continue
			}
			if err := r.create(ctx, s); err != nil {
				return false, fmt.Sprintf("create the last object of %s: %v", s, err)
			}
			made[i] = true
		}
		log, err := r.world.ReadLog(ctx)
		if err != nil {
			return false, err.Error()
		}
		found := map[string]bool{}
		for _, m := range log {
			if e, err := oracle.NewEntry(m.Header, m.Data, m.Sequence); err == nil && e.Name == lastName {
				found[e.Source+" "+e.Namespace] = true
			}
		}
		if len(found) < len(r.subject.streams) {
			return false, fmt.Sprintf("the last objects of %d of %d streams are in the log", len(found), len(r.subject.streams))
		}
		return true, ""
	}
}

const lastName = "the-last-one"

// create makes the last object of a stream.
func (r *round) create(ctx context.Context, s oracle.Stream) error {
	client, err := dynamic.NewForConfig(r.world.RESTConfig())
	if err != nil {
		return err
	}
	o := &unstructured.Unstructured{Object: map[string]any{}}
	for _, k := range drive.Kinds() {
		if k.Resource != s.Resource {
			continue
		}
		o.SetGroupVersionKind(k.Resource.GroupVersion().WithKind(k.Kind))
		if k.Namespaced {
			o.SetNamespace(either(s.Namespace, whole))
		}
	}
	o.SetName(lastName)
	if s.LabelSelector != "" {
		o.SetLabels(map[string]string{drive.Label: "yes"})
	}
	_, err = client.Resource(s.Resource).Namespace(o.GetNamespace()).Create(ctx, o, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil // an earlier answer was lost
	}
	return err
}

func either(a, b string) string {
	if a == "" {
		return b
	}
	return a
}
