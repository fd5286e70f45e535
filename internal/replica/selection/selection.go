// SPDX-License-Identifier: Apache-2.0

// Package selection says which events of a log concern a replica, by the entries of its file, and what they claim.
package selection

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
)

// Entry selects objects of the source cluster.
type Entry struct {
	// Group and Resource name a resource; an empty Resource names all of the group, and Group "*" is all groups.
	Group, Resource string
	// Namespaces are those of the source; empty: all.
	Namespaces []string
	// Rules say how its objects change on their way.
	Rules *clean.Rules
}

// Resource is one that the log has, and an entry selects.
type Resource struct {
	// Number stands for it in keys.
	Number uint16
	schema.GroupVersionResource
	// entries select it, each in other namespaces. There is at least one.
	entries []*Entry
}

// Selection says which events concern the replica. Resources get numbers as the log shows them. It is safe for
// concurrent use.
type Selection struct {
	cluster, pipeline string
	entries           []Entry

	mu     sync.Mutex
	all    []*Resource
	byName map[schema.GroupResource]*Resource
}

// New returns one of entries, for the events of a pipeline of a cluster.
func New(cluster, pipeline string, entries []Entry) *Selection {
	return &Selection{
		cluster: cluster, pipeline: pipeline, entries: entries, byName: make(map[schema.GroupResource]*Resource),
	}
}

// Find returns the resource of an event that an entry selects; nil for others. New says that it is the first one of it.
func (s *Selection) Find(e *event.Event) (r *Resource, isNew bool) {
	if e.Attr("pipeline") != s.pipeline || e.Attr("clustername") != s.cluster || e.Resource == "" {
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
	r = &Resource{
		Number: uint16(len(s.all)), GroupVersionResource: name.WithVersion(e.Version), //nolint:gosec // few exist
		entries: entries,
	}
	s.all = append(s.all, r)
	s.byName[name] = r
	return r, true
}

// entriesOf returns the entries that select a resource: those that name it, else one that names all. What is left out
// by default has to be named.
func (s *Selection) entriesOf(name schema.GroupResource) (entries []*Entry) {
	var all []*Entry
	for i := range s.entries {
		switch e := &s.entries[i]; {
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

// Named returns a resource that the log has shown, and an entry selects; nil for others.
func (s *Selection) Named(name schema.GroupResource) *Resource {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byName[name]
}

// All returns the resources so far, by their numbers.
func (s *Selection) All() []*Resource {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// At returns a resource by its number.
func (s *Selection) At(number uint16) *Resource {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[number]
}

// Entry returns the entry that selects objects of a namespace of the source, which is empty for one without; nil for
// none.
func (r *Resource) Entry(namespace string) *Entry {
	for _, e := range r.entries {
		if namespace == "" || len(e.Namespaces) == 0 || slices.Contains(e.Namespaces, namespace) {
			return e
		}
	}
	return nil
}

// Rules returns the rules for objects of a namespace of the source, which an entry selects.
func (r *Resource) Rules(namespace string) *clean.Rules { return r.Entry(namespace).Rules }

// Places returns rules that know where objects go: all entries agree on that.
func (r *Resource) Places() *clean.Rules { return r.entries[0].Rules }

// Origin is the name of an object in the source cluster: the partition key of its events.
func (r *Resource) Origin(cluster, namespace, name string) string {
	group := r.Group
	if group == "" {
		group = "core"
	}
	if namespace == "" {
		namespace = "_"
	}
	return cluster + "/" + group + "/" + r.Resource + "/" + namespace + "/" + name
}

// Namespaces returns the target's namespaces that are read; an empty one stands for all. Namespaced says that the
// target has its objects in namespaces.
func (r *Resource) Namespaces(namespaced bool) (all []string) {
	for _, entry := range r.entries {
		if !namespaced || len(entry.Namespaces) == 0 {
			return []string{""}
		}
		for _, namespace := range entry.Namespaces {
			if target, ok := entry.Rules.TargetNamespace(namespace); ok {
				all = append(all, target)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Key returns the key of the source object that an object of the target is a copy of.
func (r *Resource) Key(namespace, name string) (keys.Key, bool) {
	from, ok := r.Places().Source(r.GroupResource(), types.NamespacedName{Namespace: namespace, Name: name})
	key := keys.Key{Resource: r.Number, Namespace: from.Namespace, Name: from.Name}
	return key, ok && r.Entry(from.Namespace) != nil
}

// Tells reports whether an event is the one that a row of the resource is about: a log that was replaced may have
// another one at its position.
func (r *Resource) Tells(e *event.Event, row *keys.Row) bool {
	return e.Group == r.Group && e.Resource == r.GroupVersionResource.Resource &&
		e.Attr("namespace") == row.Namespace && e.Attr("name") == row.Name &&
		e.Attr("sequence") == row.Desired.Sequence.String()
}
