// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/catalog"
)

// Wildcard names every resource that can be listed and watched, of one group or of all.
type Wildcard struct {
	// All: of all groups. Else of Group, which is empty for the core group.
	All     bool
	Group   string
	Exclude []Exclusion
}

// Exclusion leaves resources out.
type Exclusion struct {
	// Name is a plural, singular, short name or kind in lower case; empty: all of Group.
	Name string
	// Group is where it is looked for; AnyGroup: everywhere.
	Group    string
	AnyGroup bool
	// Version, if not empty, has to be one in which the resource is served.
	Version string
}

// Names reports whether the wildcard names a resource.
func (w *Wildcard) Names(s *catalog.Served) bool {
	return (w.All || w.Group == s.Group) && !slices.ContainsFunc(w.Exclude, func(e Exclusion) bool { return e.names(s) })
}

// Select returns what the wildcard names among what is served, each resource in the version that the API server
// prefers. Namespaced: only what is in namespaces.
func (w *Wildcard) Select(served []*catalog.Served, namespaced bool) (all []source.Resource) {
	p := &plan{offered: byResource(served)}
	for _, s := range served {
		if r := s.Versions[0]; w.Names(s) && (!w.All || !p.shown(s)) && (r.Namespaced || !namespaced) {
			all = append(all, r)
		}
	}
	return all
}

// Nothing says why the wildcard selects nothing of what is served; empty where it selects something. Namespaced is as
// for Select.
func (w *Wildcard) Nothing(served []*catalog.Served, namespaced bool) string {
	whole := Wildcard{All: w.All, Group: w.Group}
	switch {
	case len(w.Select(served, namespaced)) > 0:
		return ""
	case len(whole.Select(served, namespaced)) > 0:
		return "everything that it names is excluded"
	default:
		return "it names nothing that the cluster has"
	}
}

// Idle returns the indices of the exclusions that leave out nothing of what is served.
func (w *Wildcard) Idle(served []*catalog.Served) (idle []int) {
	whole := Wildcard{All: w.All, Group: w.Group}
	for i, e := range w.Exclude {
		if !slices.ContainsFunc(served, func(s *catalog.Served) bool { return whole.Names(s) && e.names(s) }) {
			idle = append(idle, i)
		}
	}
	return idle
}

func (e *Exclusion) names(s *catalog.Served) bool {
	if !e.AnyGroup && e.Group != s.Group {
		return false
	}
	if _, served := s.In(e.Version); e.Version != "" && !served {
		return false
	}
	return e.Name == "" || e.Name == s.Resource || slices.Contains(s.Names, e.Name)
}

// MayMean reports whether kubectl might take a name for a resource. Groups can be cut short.
func MayMean(name string, s *catalog.Served) bool {
	full, short := schema.ParseResourceArg(name)
	called := func(plural, group string) bool {
		return (plural == s.Resource || slices.Contains(s.Names, plural)) && strings.HasPrefix(s.Group, group)
	}
	return full != nil && called(full.Resource, full.Group) || called(short.Resource, short.Group)
}

// pinned returns the version that a name has for a resource; empty if it has none.
func pinned(name string, s *catalog.Served) string {
	full, short := schema.ParseResourceArg(name)
	if full == nil || full.Group != s.Group || short.Group == s.Group {
		return ""
	}
	return full.Version
}

// canonical returns the resource that shows the same objects as the given one, and that all of them are read as.
// Kubernetes has moved resources between groups, and serves them in both.
func canonical(r schema.GroupResource) schema.GroupResource {
	switch {
	case r.Group == "events.k8s.io" && r.Resource == "events":
		r.Group = ""
	case r.Group != "extensions":
	case r.Resource == "ingresses", r.Resource == "networkpolicies":
		r.Group = "networking.k8s.io"
	case r.Resource == "daemonsets", r.Resource == "deployments", r.Resource == "replicasets":
		r.Group = "apps"
	}
	return r
}
