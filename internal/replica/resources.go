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
	// entries select it, each in other namespaces. There is at least one.
	entries []*Entry
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if r = s.byName[name]; r != nil {
		return r, false
	}
	entries := s.entriesOf(name)
	if len(entries) == 0 {
		return nil, false
	}
	r = &resource{
		number: uint16(len(s.all)), GroupVersionResource: name.WithVersion(e.Version), //nolint:gosec // few exist
		entries: entries,
	}
	s.all = append(s.all, r)
	s.byName[name] = r
	return r, true
}

// entriesOf returns the entries that select a resource: those that name it, else one that names all. What is left out
// by default has to be named.
func (s *selection) entriesOf(name schema.GroupResource) (entries []*Entry) {
	var all []*Entry
	for i := range s.cfg.Entries {
		switch e := &s.cfg.Entries[i]; {
		case e.Group != name.Group && e.Group != "*":
		case e.Resource == name.Resource:
			entries = append(entries, e)
		case e.Resource == "":
			all = append(all, e)
		}
	}
	if _, excluded := clean.Excluded(name); len(entries) > 0 || excluded {
		return entries
	}
	return all
}

// named returns a resource that the log has shown, and an entry selects; nil for others.
func (s *selection) named(name schema.GroupResource) *resource {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byName[name]
}

// at returns a resource by its number.
func (s *selection) at(number uint16) *resource {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[number]
}

// entry returns the entry that selects objects of a namespace of the source, which is empty for one without; nil for
// none.
func (r *resource) entry(namespace string) *Entry {
	for _, e := range r.entries {
		if namespace == "" || len(e.Namespaces) == 0 || slices.Contains(e.Namespaces, namespace) {
			return e
		}
	}
	return nil
}

// rules returns the rules for objects of a namespace of the source, which an entry selects.
func (r *resource) rules(namespace string) *clean.Rules { return r.entry(namespace).Rules }

// places returns rules that know where objects go: all entries agree on that.
func (r *resource) places() *clean.Rules { return r.entries[0].Rules }

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
