// SPDX-License-Identifier: Apache-2.0

// Package contents finds what would be deleted with an object: what is in a Namespace, and the objects of a
// CustomResourceDefinition.
package contents

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/catalog"
)

var (
	namespaces  = schema.GroupResource{Resource: "namespaces"}
	definitions = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
)

// Has reports whether objects of a resource have others that go with them.
func Has(resource schema.GroupResource) bool {
	return resource == namespaces || resource == definitions
}

// Finder looks for what would be deleted with an object. It is safe for concurrent use.
type Finder struct{ client metadata.Interface }

// New returns a finder for the API server of cfg.
func New(cfg *rest.Config) (*Finder, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.RateLimiter = -1, nil
	client, err := metadata.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("credentials for the API server: %w", err)
	}
	return &Finder{client}, nil
}

// An object of a kind is looked for in mostPages pages at most.
const (
	pageSize  = 500
	mostPages = 20
)

// Kept returns something that must not be deleted with an object, or says that it cannot be known, for a person; empty
// where there is nothing. Goes reports of an object with the label of a replica whether it may go.
//
// What controllers make does not count: resources and objects that are never replicated, and objects with a controlling
// owner. What is made after a kind was looked at is not found.
func (f *Finder) Kept(
	ctx context.Context, of schema.GroupResource, name string, offers *catalog.Offers,
	goes func(source.Resource, *metav1.PartialObjectMetadata) bool,
) (what string, err error) {
	in := ""
	var kinds []source.Resource
	if of == namespaces {
		in = name
		if unknown := offers.Unknown(); len(unknown) > 0 {
			return "objects that cannot be listed, perhaps: " + unknown[0].String() + " does not say what it has", nil
		}
		for _, s := range offers.All() {
			_, excluded := clean.Excluded(schema.GroupResource{Group: s.Group, Resource: s.Resource})
			if s.Versions[0].Namespaced && !excluded {
				kinds = append(kinds, s.Versions[0])
			}
		}
	} else {
		plural, group, _ := strings.Cut(name, ".")
		s := offers.Get(group, plural)
		if s == nil {
			return unlisted(name), nil
		}
		kinds = append(kinds, s.Versions[0])
	}
	for _, kind := range kinds {
		if what, err = f.keptOf(ctx, kind, in, goes); what != "" || err != nil {
			return what, err
		}
	}
	return "", nil
}

// keptOf is Kept for one kind.
func (f *Finder) keptOf(
	ctx context.Context, kind source.Resource, namespace string,
	goes func(source.Resource, *metav1.PartialObjectMetadata) bool,
) (what string, err error) {
	client := f.client.Resource(kind.GroupResource().WithVersion(kind.Version)).Namespace(namespace)
	options := metav1.ListOptions{Limit: pageSize}
	for range mostPages {
		page, err := client.List(ctx, options)
		switch {
		case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err): // it is not served any more
			if namespace == "" {
				return unlisted(kind.GroupResource().String()), nil
			}
			return "", nil
		case apierrors.IsForbidden(err):
			return kind.GroupResource().String() + " may not be listed", nil
		case err != nil:
			return "", fmt.Errorf("list %s: %w", kind, err)
		}
		for i := range page.Items {
			if o := &page.Items[i]; !passes(kind, o) && (o.Labels[clean.Label] == "" || !goes(kind, o)) {
				return kind.GroupResource().String() + " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"), nil
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return "", nil
		}
	}
	return fmt.Sprintf("more than %d %s, which were not all looked at", mostPages*pageSize, kind.GroupResource()), nil
}

// unlisted says that a definition may have objects in etcd that no API serves.
func unlisted(definition string) string {
	return definition + ", whose objects cannot be listed: it is not served"
}

// passes reports whether an object is not looked at: a controller has made it, or it is being deleted.
func passes(kind source.Resource, o *metav1.PartialObjectMetadata) bool {
	if o.DeletionTimestamp != nil || metav1.GetControllerOf(o) != nil {
		return true
	}
	annotations := make(map[string]any, len(o.Annotations))
	for name, value := range o.Annotations {
		annotations[name] = value
	}
	_, skips := (&clean.Rules{}).Skips(kind.GroupResource(), map[string]any{
		"metadata": map[string]any{"name": o.Name, "annotations": annotations}, // whose label it has is asked for elsewhere
	})
	return skips
}
