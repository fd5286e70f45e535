// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// resolved is an entry that names one resource, and what that is in the cluster.
type resolved struct {
	entry *config.Resource
	is    source.Resource
}

// shares reports whether both have objects in common, as far as it is known before namespaces are selected: versions of a resource are the same objects.
func (r resolved) shares(o resolved) bool {
	same := r.is.Group == o.is.Group && r.is.Resource == o.is.Resource
	return same && slices.ContainsFunc(scopesOf(r.entry), func(a string) bool {
		return slices.ContainsFunc(scopesOf(o.entry), func(b string) bool { return a == "" || b == "" || a == b })
	})
}

// checkShared checks an entry against those before it in its pipeline, as run does when it knows what their names stand for, and returns them with it.
func (c *checkup) checkShared(path string, before []resolved, r resolved) []resolved {
	if i := slices.IndexFunc(before, r.shares); i >= 0 {
		add(&c.problems, path+".resource", "%v and %v before it are one resource, %v, with objects in common, and an object belongs to one stream of a pipeline; "+
			"remove one, or give them different namespaces", r.entry.Resource, before[i].entry.Resource, r.is)
	}
	return append(before, r)
}
