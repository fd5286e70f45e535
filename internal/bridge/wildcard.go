// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// Wildcard names every resource that can be listed and watched, of one group or of all.
type Wildcard struct {
	// All: of all groups. Else of Group, which is empty for the core group.
	All   bool
	Group string
	// Exclude are left out.
	Exclude []Exclusion
}

// Exclusion names resources.
type Exclusion struct {
	// Name is a plural, singular, short name or kind in lower case; empty: all of Group.
	Name string
	// Group is where it is looked for; AnyGroup: everywhere.
	Group    string
	AnyGroup bool
	// Version, if not empty, has to be one in which the resource is served.
	Version string
}

func (e *Exclusion) matches(s *source.Served) bool {
	if !e.AnyGroup && e.Group != s.Group {
		return false
	}
	if _, served := s.In(e.Version); e.Version != "" && !served {
		return false
	}
	return e.Name == "" || e.Name == s.Resource || slices.Contains(s.Names, e.Name)
}

// matches reports whether w names a resource among what is served. Of objects that two resources show, the one that is not the first is left out, unless it is
// named with its group or the first is not there.
func (w *Wildcard) matches(s *source.Served, offers *source.Offers) bool {
	first := firstOf(s.Group, s.Resource)
	if w.All && first != (schema.GroupResource{Group: s.Group, Resource: s.Resource}) && offers.Get(first.Group, first.Resource) != nil {
		return false
	}
	return (w.All || w.Group == s.Group) && !slices.ContainsFunc(w.Exclude, func(e Exclusion) bool { return e.matches(s) })
}

// Select returns what w names among what is served, each resource in the version that the API server prefers. Namespaced: only what is in namespaces.
func (w *Wildcard) Select(offers *source.Offers, namespaced bool) (all []source.Resource) {
	for _, s := range offers.All() {
		if r := s.Versions[0]; w.matches(s, offers) && (r.Namespaced || !namespaced) {
			all = append(all, r)
		}
	}
	return all
}

// Nothing says why w selects nothing of what is served; empty where it selects something. Namespaced is as for Select.
func (w *Wildcard) Nothing(offers *source.Offers, namespaced bool) string {
	whole := Wildcard{All: w.All, Group: w.Group}
	switch {
	case len(w.Select(offers, namespaced)) > 0:
		return ""
	case len(whole.Select(offers, namespaced)) > 0:
		return "everything that it names is excluded"
	default:
		return "it names nothing that the cluster has"
	}
}

// Idle returns which of Exclude, by index, leave out nothing of what is served.
func (w *Wildcard) Idle(offers *source.Offers) (idle []int) {
	whole := Wildcard{All: w.All, Group: w.Group}
	for i, e := range w.Exclude {
		if !slices.ContainsFunc(offers.All(), func(s *source.Served) bool { return whole.matches(s, offers) && e.matches(s) }) {
			idle = append(idle, i)
		}
	}
	return idle
}

// wider reports whether w yields to o where both name a resource: the one of a group is meant more exactly.
func (w *Wildcard) wider(o *Wildcard) bool { return w.All && !o.All }

// firstOf returns the resource that shows the same objects as the given one and that all of them are read as. Kubernetes has moved resources between groups, and
// serves them in both.
func firstOf(group, resource string) schema.GroupResource {
	switch {
	case group == "events.k8s.io" && resource == "events":
		group = ""
	case group != "extensions":
	case resource == "ingresses", resource == "networkpolicies":
		group = "networking.k8s.io"
	case resource == "daemonsets", resource == "deployments", resource == "replicasets":
		group = "apps"
	}
	return schema.GroupResource{Group: group, Resource: resource}
}

// mayMean reports whether kubectl might take what a user calls a resource for this one. Groups can be cut short.
func mayMean(name string, s *source.Served) bool {
	full, short := schema.ParseResourceArg(name)
	called := func(plural, group string) bool {
		return (plural == s.Resource || slices.Contains(s.Names, plural)) && strings.HasPrefix(s.Group, group)
	}
	return full != nil && called(full.Resource, full.Group) || called(short.Resource, short.Group)
}

// calling returns what a stream's spec calls its resource, as far as the resource itself does not tell.
func (spec *StreamSpec) calling(r source.Resource) string {
	if spec.Wildcard != nil || means(spec.Resource, r) {
		return ""
	}
	return spec.Resource
}

// named reports whether a spec names the resource of a stored stream, which the API server need not know any more.
func (p *session) named(spec *StreamSpec, at source.Stream) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	called := p.state.Streams[at.Name()].Called
	return means(spec.Resource, at.Resource) || called != "" && called == spec.Resource
}

// means reports whether a name, with the plural or the kind, and the group in full or none, is that of a resource.
func means(name string, r source.Resource) bool {
	full, short := schema.ParseResourceArg(name)
	called := func(s string) bool { return s == r.Resource || r.Kind != "" && strings.EqualFold(s, r.Kind) }
	if full != nil && called(full.Resource) && full.Version == r.Version && full.Group == r.Group {
		return true
	}
	return called(short.Resource) && (short.Group == "" || short.Group == r.Group)
}
