// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
)

// resource is one that the log has, and an entry selects.
type resource struct {
	number uint16
	schema.GroupVersionResource
	kind       string
	namespaced bool
	entry      *Entry
}

// selection says which events concern the replica. Resources get numbers as the log shows them.
type selection struct {
	cfg *Config

	mu     sync.Mutex
	all    []*resource
	byName map[schema.GroupResource]*resource
}

func newSelection(cfg *Config) *selection {
	return &selection{cfg: cfg, byName: make(map[schema.GroupResource]*resource)}
}

// find returns the resource of an event that an entry selects; nil for others. New says that it is the first one of it.
func (s *selection) find(e *event.Event) (r *resource, isNew bool) {
	if e.Attr("pipeline") != s.cfg.Pipeline || e.Attr("clustername") != s.cfg.Cluster || e.Resource == "" {
		return nil, false
	}
	name := schema.GroupResource{Group: e.Group, Resource: e.Resource}
	entry := s.entryOf(name)
	if entry == nil {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r = s.byName[name]; r != nil {
		return r, false
	}
	r = &resource{
		number: uint16(len(s.all)), GroupVersionResource: name.WithVersion(e.Version), //nolint:gosec // few exist
		kind: e.Attr("kind"), namespaced: e.Attr("namespace") != "", entry: entry,
	}
	s.all = append(s.all, r)
	s.byName[name] = r
	return r, true
}

// entryOf returns the entry that selects a resource, nil for none. What is left out by default has to be named.
func (s *selection) entryOf(name schema.GroupResource) *Entry {
	var found *Entry
	for i := range s.cfg.Entries {
		switch e := &s.cfg.Entries[i]; {
		case e.Group != name.Group && e.Group != "*":
		case e.Resource == name.Resource:
			return e
		case e.Resource == "":
			found = e
		}
	}
	if _, excluded := clean.Excluded(name); excluded {
		return nil
	}
	return found
}

// at returns a resource by its number.
func (s *selection) at(number uint16) *resource {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[number]
}

// covers reports whether the entry selects objects of a namespace, which is empty for one without.
func (r *resource) covers(namespace string) bool {
	return !r.namespaced || len(r.entry.Namespaces) == 0 || slices.Contains(r.entry.Namespaces, namespace)
}

// origin is the name of an object in the source cluster: the partition key of its events.
func (r *resource) origin(cluster, namespace, name string) string {
	group := r.Group
	if group == "" {
		group = "core"
	}
	if namespace == "" {
		namespace = "_"
	}
	return cluster + "/" + group + "/" + r.Resource + "/" + namespace + "/" + name
}
