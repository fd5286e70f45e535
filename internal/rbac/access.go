// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"slices"
	"strings"
)

// Any stands for all groups, or for all resources of a group.
const Any = "*"

// Access is a kind of request that has to be allowed.
type Access struct {
	// Each of the two may be Any. A subresource is behind a slash.
	Group, Resource string
	// Namespace is empty for all of them, and for a resource that is in none.
	Namespace string
	// Name is empty for objects of all names.
	Name string
	Verb string
}

// GroupResource returns the resource with its group, as kubectl has it.
func (a Access) GroupResource() string {
	resource, subresource, found := strings.Cut(a.Resource, "/")
	if a.Group != "" {
		resource += "." + a.Group
	}
	if found {
		resource += "/" + subresource
	}
	return resource
}

// verbOrder is the order in which rules have them.
var verbOrder = []string{"get", "list", "watch", "create", "update", "patch", "delete", "escalate", "bind"}

// isCovered reports whether another access allows all that a does.
func (a Access) isCovered(all map[Access]struct{}) bool {
	for _, group := range []string{a.Group, Any} {
		for _, resource := range []string{a.Resource, Any} {
			for _, namespace := range []string{a.Namespace, ""} {
				for _, name := range []string{a.Name, ""} {
					wider := Access{Group: group, Resource: resource, Namespace: namespace, Name: name, Verb: a.Verb}
					if _, found := all[wider]; found && wider != a {
						return true
					}
				}
			}
		}
	}
	return false
}

// allow returns an access for each verb.
func allow(on Access, verbs ...string) (all []Access) {
	for _, on.Verb = range verbs {
		all = append(all, on)
	}
	return all
}

// definitions are what tells that resources come and go.
var definitions = []Access{
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
	{Group: "apiregistration.k8s.io", Resource: "apiservices"},
}

// Identify returns what it takes to tell clusters apart: by the uid of a namespace that all have.
func Identify() []Access { return allow(Access{Resource: "namespaces", Name: "kube-system"}, "get") }

// Reads returns what it takes to read a resource in a namespace. Where that is all of a group, it is read, too, which
// resources those are.
func Reads(group, resource, namespace string) []Access {
	all := allow(Access{Group: group, Resource: resource, Namespace: namespace}, "list", "watch")
	if resource == Any {
		for _, d := range definitions {
			all = append(all, allow(d, "get", "list", "watch")...)
		}
	}
	return all
}

// Leads returns what it takes to stand for a Lease. What is to be made cannot be named.
func Leads(namespace, name string) []Access {
	lease := Access{Group: "coordination.k8s.io", Resource: "leases", Namespace: namespace}
	return slices.Concat(allow(lease, "create"), allow(named(lease, name), "get", "update"))
}

func named(on Access, name string) Access {
	on.Name = name
	return on
}

// Follows returns what each replica reads of the cluster that it writes to: what objects may wait for. Without it they
// are tried again less and less often.
func Follows() []Access {
	all := Reads("", "namespaces", "")
	for _, d := range definitions {
		all = append(all, allow(d, "list", "watch")...)
	}
	return all
}

// Remembers returns what it takes to keep in a ConfigMap what a person has released.
func Remembers(namespace, name string) []Access {
	state := Access{Resource: "configmaps", Namespace: namespace}
	return slices.Concat(allow(state, "create"), allow(named(state, name), "get", "update"))
}

// authorities are what it takes to write objects that allow something, by their plural: without it a writer has to have
// all rights itself that it writes into a role, or binds.
var authorities = map[string][]Access{
	"roles":               {{Resource: "roles", Verb: "escalate"}},
	"clusterroles":        {{Resource: "clusterroles", Verb: "escalate"}},
	"rolebindings":        {{Resource: "roles", Verb: "bind"}, {Resource: "clusterroles", Verb: "bind"}},
	"clusterrolebindings": {{Resource: "clusterroles", Verb: "bind"}},
}

// containers are what is deleted only by a replica that may list all that would go with it. No role is printed for
// that: it would allow to read every Secret.
var containers = []Access{
	{Resource: "namespaces"},
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
}

// Writes returns what it takes to keep the objects of a resource in a namespace as a log says. They are created and
// changed by patch, or by update where apply cannot carry them. An object that the source has created again is deleted
// and created, also where nothing else is deleted. Status is written by a request of its own. Namespaces and
// CustomResourceDefinitions are not deleted.
func Writes(group, resource, namespace string, status bool) []Access {
	on := Access{Group: group, Resource: resource, Namespace: namespace}
	all := allow(on, "get", "list", "watch", "create", "update", "patch")
	if !slices.Contains(containers, Access{Group: group, Resource: resource}) {
		all = append(all, allow(on, "delete")...)
	}
	if status {
		on.Resource += "/status"
		all = append(all, allow(on, "patch")...)
	}
	if group == apiGroup {
		for _, a := range authorities[resource] {
			a.Group, a.Namespace = group, namespace
			all = append(all, a)
		}
	}
	return all
}
