// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Namespace is what is known of one.
type Namespace struct {
	ResourceVersion string
	Labels          labels.Set
	// Terminating: it is being deleted.
	Terminating bool
}

// Namespaces knows which namespaces a cluster has, and their labels, as they change. It is safe for concurrent use.
type Namespaces struct {
	metadata metadata.Interface

	mu      sync.Mutex
	known   map[string]Namespace
	newest  string
	synced  bool
	changed chan struct{}
	problem error
}

// NewNamespaces returns one that does nothing until Run.
func NewNamespaces(cfg *rest.Config) (*Namespaces, error) {
	m, err := metadata.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("namespaces: %w", err)
	}
	return &Namespaces{
		metadata: m, known: map[string]Namespace{}, changed: make(chan struct{}),
		problem: errors.New("they are being listed"),
	}, nil
}

// Run follows the namespaces until ctx ends, and returns nil then. It may be called once.
func (n *Namespaces) Run(ctx context.Context) error {
	what := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	informer := metadatainformer.NewFilteredMetadataInformer(n.metadata, what, "", 0, nil, fresh).Informer()
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    n.put,
		UpdateFunc: func(_, obj any) { n.put(obj) },
		DeleteFunc: n.remove,
	})
	if err != nil {
		return err
	}
	err = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { n.fail(err) })
	if err != nil {
		return err
	}
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), handler.HasSynced) {
			n.change(func() { n.synced, n.problem = true, nil })
		}
	})
	informer.RunWithContext(ctx)
	waiting.Wait()
	return nil
}

// fresh has a list be one of the newest state, instead of any that an API server may remember.
func fresh(o *metav1.ListOptions) {
	if o.ResourceVersion == "0" {
		o.ResourceVersion = ""
	}
}

// Now returns all namespaces by their names, and a channel that is closed when they change. Before they are known the
// error says why.
func (n *Namespaces) Now() (map[string]Namespace, <-chan struct{}, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.synced {
		return nil, n.changed, n.problem
	}
	all := make(map[string]Namespace, len(n.known))
	for name, ns := range n.known {
		all[name] = ns
	}
	return all, n.changed, nil
}

// Get returns one of them; false where it does not exist, or is not known.
func (n *Namespaces) Get(name string) (ns Namespace, ok bool, changed <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	ns, ok = n.known[name]
	return ns, ok, n.changed
}

// Precedes reports whether all that is known is of before a version: an API server that lags behind has told it.
func (n *Namespaces) Precedes(version string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return newer(version, n.newest)
}

func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}

func (n *Namespaces) put(obj any) {
	m, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return
	}
	n.change(func() {
		if n.newest == "" || newer(m.ResourceVersion, n.newest) {
			n.newest = m.ResourceVersion
		}
		n.known[m.Name] = Namespace{
			ResourceVersion: m.ResourceVersion, Labels: m.Labels,
			Terminating: m.DeletionTimestamp != nil,
		}
	})
}

func (n *Namespaces) remove(obj any) {
	if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
		n.change(func() { delete(n.known, name) })
	}
}

func (n *Namespaces) fail(err error) {
	n.change(func() {
		if !n.synced {
			n.problem = err
		}
	})
}

func (n *Namespaces) change(how func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	how()
	close(n.changed)
	n.changed = make(chan struct{})
}
