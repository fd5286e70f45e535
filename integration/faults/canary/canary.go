// SPDX-License-Identifier: Apache-2.0

// Package canary makes new objects, whose arrival in the log shows that the bridge reads and publishes.
package canary

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/drive"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
)

// Missing creates an object in each stream, unless it exists, and returns the streams of which the log lacks it that
// read returns. In a stream of all namespaces it is in the one that is given.
func Missing(
	ctx context.Context, w *world.World, read func(context.Context) ([]rig.Message, error), namespace, name string,
	streams []oracle.Stream,
) ([]oracle.Stream, error) {
	for _, s := range streams {
		if err := create(ctx, w, s, object(s, namespace, name)); err != nil {
			return streams, fmt.Errorf("create %s of %s: %w", name, s, err)
		}
	}
	log, err := read(ctx)
	if err != nil {
		return streams, err
	}
	found := map[string]bool{}
	for _, m := range log {
		if !named(m, name) {
			continue
		}
		if e, err := m.Entry(); err == nil {
			found[e.Source+" "+e.Namespace] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(streams), func(s oracle.Stream) bool {
		return found[s.Source()+" "+object(s, namespace, name).GetNamespace()]
	}), nil
}

// named reports whether a message may be about an object of a name, without reading all of it.
func named(m rig.Message, name string) bool {
	if m.Structured() {
		return strings.HasSuffix(m.Subject, "."+name) || strings.HasSuffix(m.Key, "/"+name)
	}
	is := func(key string) bool { return slices.Equal(m.Header[key], []string{name}) }
	return is("ce-name") || is("ce_name") || is(http.CanonicalHeaderKey("ce-name"))
}

// object returns a new object of a stream.
func object(s oracle.Stream, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	for _, k := range drive.Kinds() {
		if k.Resource != s.Resource {
			continue
		}
		o.SetGroupVersionKind(k.Resource.GroupVersion().WithKind(k.Kind))
		switch {
		case s.Namespace != "":
			o.SetNamespace(s.Namespace)
		case k.Namespaced:
			o.SetNamespace(namespace)
		}
	}
	o.SetName(name)
	if s.LabelSelector != "" {
		o.SetLabels(map[string]string{drive.Label: "yes"})
	}
	return o
}

// create makes an object of a stream, unless an earlier request has made it.
func create(ctx context.Context, w *world.World, s oracle.Stream, o *unstructured.Unstructured) error {
	client, err := dynamic.NewForConfig(w.RESTConfig())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err = client.Resource(s.Resource).Namespace(o.GetNamespace()).Create(ctx, o, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
