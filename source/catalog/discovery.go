// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"slices"
	"sync"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// discoveryTimeout is how long one request for what the API server has may take.
const discoveryTimeout = 10 * time.Second

// Discovery finds out what the API server calls a resource. It is safe for concurrent use.
type Discovery struct {
	mu       sync.Mutex
	deferred *restmapper.DeferredDiscoveryRESTMapper
	mapper   apimeta.RESTMapper
	cached   discovery.CachedDiscoveryInterface
}

// NewDiscovery returns a Discovery that asks the API server of cfg, at the first use.
func NewDiscovery(cfg *rest.Config) (*Discovery, error) {
	// Requests take no context: a timeout bounds how long a stop may have to wait for one.
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = discoveryTimeout
	dc, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	cached := memory.NewMemCacheClient(dc)
	deferred := restmapper.NewDeferredDiscoveryRESTMapper(cached)
	return &Discovery{deferred: deferred, mapper: restmapper.NewShortcutExpander(deferred, cached, nil), cached: cached},
		nil
}

// Resolve finds the resource that name means to kubectl: plural, singular or short name, with a version and a group
// where the user gave them ("deployments", "deployments.apps", "deployments.v1.apps"). An unknown name is asked for
// again at the next call: its CustomResourceDefinition may have come meanwhile.
func (d *Discovery) Resolve(name string) (source.Resource, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r, err := d.resolve(name)
	if err != nil {
		// The mapper has a copy of what is cached, and drops both.
		d.deferred.Reset()
		return source.Resource{}, fmt.Errorf("resource %q: %w", name, err)
	}
	return r, nil
}

// Readable reports whether the API server lists and watches a resource that [Discovery.Resolve] found.
func (d *Discovery) Readable(r source.Resource) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all, err := d.cached.ServerResourcesForGroupVersion(schema.GroupVersion{Group: r.Group, Version: r.Version}.String())
	if err != nil {
		return false, fmt.Errorf("resource %s: %w", r, err)
	}
	for _, found := range all.APIResources {
		if found.Name == r.Resource {
			return slices.Contains(found.Verbs, "list") && slices.Contains(found.Verbs, "watch"), nil
		}
	}
	return false, nil
}

func (d *Discovery) resolve(name string) (source.Resource, error) {
	gvr, err := d.find(name)
	if err != nil {
		return source.Resource{}, err
	}
	gvk, err := d.mapper.KindFor(gvr)
	if err != nil {
		return source.Resource{}, err
	}
	mapping, err := d.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return source.Resource{}, err
	}
	return source.Resource{
		Group: mapping.Resource.Group, Version: mapping.Resource.Version, Resource: mapping.Resource.Resource,
		Kind: gvk.Kind, Namespaced: mapping.Scope.Name() == apimeta.RESTScopeNameNamespace,
	}, nil
}

// find prefers the reading with a version, as kubectl does.
func (d *Discovery) find(name string) (schema.GroupVersionResource, error) {
	full, group := schema.ParseResourceArg(name)
	if full != nil {
		if gvr, err := d.mapper.ResourceFor(*full); err == nil {
			return gvr, nil
		}
	}
	return d.mapper.ResourceFor(group.WithVersion(""))
}
