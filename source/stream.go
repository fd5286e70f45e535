// SPDX-License-Identifier: Apache-2.0

package source

import (
	"fmt"
	"hash/fnv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource is one served resource.
type Resource struct {
	Group, Version, Resource, Kind string
	Namespaced                     bool
}

// APIVersion returns "v1" for the core group, else "group/version".
func (r Resource) APIVersion() string {
	if r.Group == "" {
		return r.Version
	}
	return r.Group + "/" + r.Version
}

// String returns the resource as kubectl takes it: "pods.v1", "deployments.v1.apps".
func (r Resource) String() string {
	s := r.Resource + "." + r.Version
	if r.Group != "" {
		s += "." + r.Group
	}
	return s
}

// GroupResource returns group and resource without the version.
func (r Resource) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.Group, Resource: r.Resource}
}

// Stream is one resource in one scope: what one watch delivers.
type Stream struct {
	Resource
	// Namespace is empty for all namespaces and for cluster-scoped resources.
	Namespace                    string
	LabelSelector, FieldSelector string
}

// Name identifies the stream within a pipeline: "pods.v1", or "pods.v1/kube-system" for one namespace.
// Selectors are not part of it.
func (s Stream) Name() string {
	if s.Namespace == "" {
		return s.Resource.String()
	}
	return s.Resource.String() + "/" + s.Namespace
}

// ParseName is the inverse of Stream.Name, but for what the name does not tell: the kind, the selectors, and of a
// stream of all namespaces whether there are any.
func ParseName(name string) (s Stream, ok bool) {
	resource, namespace, within := strings.Cut(name, "/")
	plural, rest, found := strings.Cut(resource, ".")
	version, group, _ := strings.Cut(rest, ".")
	s = Stream{
		Resource:  Resource{Group: group, Version: version, Resource: plural, Namespaced: within},
		Namespace: namespace,
	}
	return s, found && s.Name() == name
}

// Scope stands for namespace and selectors in the ids of events and markers: 8 hex digits, the same in every process.
func (s Stream) Scope() string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s.Namespace + "\x00" + s.LabelSelector + "\x00" + s.FieldSelector))
	return fmt.Sprintf("%08x", h.Sum32())
}

// Selective reports whether objects can enter and leave the stream without being created or deleted.
func (s Stream) Selective() bool { return s.LabelSelector != "" || s.FieldSelector != "" }

// State is what a stream is doing.
type State uint8

// The states.
const (
	// Listing: objects are being listed.
	Listing State = iota + 1
	// Watching: a watch is open.
	Watching
	// Waiting: the last request failed and will be repeated.
	Waiting
)

// String returns the state in lower case.
func (s State) String() string {
	switch s {
	case Listing:
		return "listing"
	case Watching:
		return "watching"
	case Waiting:
		return "waiting"
	default:
		return "starting"
	}
}

// Observer is told how a stream is doing. Its methods must not block; they are called from several goroutines.
type Observer interface {
	// State reports what the stream does now; err is why, where it is Waiting. After a failure a stream is Watching
	// only when the watch has shown something new, or has stayed open for a second.
	State(s State, err error)
	// Restarted reports that a watch or a page of a list was broken off, with a reason fit for a metric's label.
	Restarted(reason string)
}
