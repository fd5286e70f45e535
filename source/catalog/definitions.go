// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/kube-eventbridge/kube-eventbridge/source"
)

var (
	definitions = schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions",
	}
	services = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
)

// denials are the kinds of definitions that may not be watched.
type denials struct {
	mu  sync.Mutex
	set map[schema.GroupVersionResource]bool
}

// note returns whether it is news.
func (d *denials) note(what schema.GroupVersionResource, denied bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.set[what]
	if d.set == nil {
		d.set = map[schema.GroupVersionResource]bool{}
	}
	d.set[what] = denied
	return was != denied
}

func (d *denials) any() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, denied := range d.set {
		if denied {
			return true
		}
	}
	return false
}

// attend has the API server asked whenever one of a kind of definitions changes, until ctx ends.
func (c *Catalog) attend(ctx context.Context, what schema.GroupVersionResource) error {
	informer := metadatainformer.NewFilteredMetadataInformer(c.metadata, what, "", 0, nil, nil).Informer()
	changed := func() {
		if c.denied.note(what, false) {
			c.log.Info("definitions can be watched", "resource", what.Resource)
		}
		c.news()
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changed() },
		UpdateFunc: func(_, _ any) { changed() },
		DeleteFunc: func(any) { changed() },
	}); err != nil {
		return err
	}
	if err := informer.SetTransform(slim); err != nil {
		return err
	}
	err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		refused := apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
		if refused && c.denied.note(what, true) {
			c.log.Warn("definitions may not be watched: new resources are looked for every so often", "resource", what.Resource,
				"every", quickPoll.String(), "err", err)
			c.Refresh()
		}
	})
	if err != nil {
		return err
	}
	informer.RunWithContext(ctx)
	return nil
}

// slim leaves of a definition what tells that it changed.
func slim(obj any) (any, error) {
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		m.ObjectMeta = metav1.ObjectMeta{Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion}
	}
	return obj, nil
}

// Gone reports whether it is certain that a resource, whatever its version, does not exist any more: nothing has shown
// it for three seconds while an API server that is ready answered in full, its group included, and what defined it does
// not exist; or where that is not told, for ten seconds. One answer is not enough: an API server that starts serves
// some things later than others, and behind one address older ones may answer in turn. Resources that Kubernetes has by
// itself are never gone.
func (c *Catalog) Gone(ctx context.Context, r source.Resource) bool {
	absent, ok := c.absent(r)
	if !ok || builtIn(r.Group) {
		return false
	}
	switch c.defined(ctx, r) {
	case existing, doubtful:
		return false
	case missing:
		return absent >= settledAfter && c.complete(ctx)
	default:
		return absent >= certainAfter && c.complete(ctx)
	}
}

// absent returns for how long a resource is not served; false where it is, or that is not known: as long as its group
// fails.
func (c *Catalog) absent(r source.Resource) (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.offers == nil || c.offers.Get(r.Group, r.Resource) != nil {
		return 0, false
	}
	if time.Since(c.seen.last) > staleAfter {
		c.Refresh()
	}
	return c.seen.absent(r.GroupResource()), !c.seen.since.IsZero() && !c.seen.failing[r.Group]
}

// complete reports whether the API server says that it has come to the end of its start, or does not say.
func (c *Catalog) complete(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	body, err := c.client.Get(ctx, "/readyz", "text/plain", schema.GroupResource{})
	if err == nil {
		_ = body.Close()
	}
	return err == nil || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err)
}
