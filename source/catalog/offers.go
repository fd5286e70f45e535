// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// Served is a resource that can be listed and watched.
type Served struct {
	Group, Resource string
	// Versions are those in which it can, the one that the API server prefers first. There is at least one.
	Versions []source.Resource
	// Names are what kubectl takes for Resource besides it: the singular, short names and the kind, in lower case.
	Names []string
}

// In returns the resource in a version; false where it is not served in it.
func (s *Served) In(version string) (source.Resource, bool) {
	i := slices.IndexFunc(s.Versions, func(r source.Resource) bool { return r.Version == version })
	if i < 0 {
		return source.Resource{}, false
	}
	return s.Versions[i], true
}

// Offers is what an API server had to read at one time. It does not change.
type Offers struct {
	served map[schema.GroupResource]*Served
	// answered are the versions of groups that have said what they have; unknown those that could not.
	answered map[schema.GroupVersion]bool
	unknown  []schema.GroupVersion
}

// Unknown returns the versions of groups, in order, that may have resources besides these: the API server has not said
// it yet. An aggregated API server that is away is the usual cause.
func (o *Offers) Unknown() []schema.GroupVersion { return o.unknown }

// Get returns a resource by its group, empty for the core group, and plural; nil where it is not served, or can not be
// listed and watched.
func (o *Offers) Get(group, resource string) *Served {
	return o.served[schema.GroupResource{Group: group, Resource: resource}]
}

// All returns every resource, ordered by group and plural.
func (o *Offers) All() []*Served {
	all := make([]*Served, 0, len(o.served))
	for _, s := range o.served {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *Served) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Resource, b.Resource))
	})
	return all
}

// answer is what an API server says that it has.
type answer struct {
	groups []*metav1.APIGroup
	lists  []*metav1.APIResourceList
	// failed are the versions of groups of which it could not say what they have.
	failed map[schema.GroupVersion]error
}

// offers returns what an answer has to read; of what failed, what was known before. Before may be nil.
func (a *answer) offers(before *Offers) *Offers {
	o := &Offers{served: map[schema.GroupResource]*Served{}, answered: map[schema.GroupVersion]bool{}}
	lists := map[string]*metav1.APIResourceList{}
	for _, l := range a.lists {
		lists[l.GroupVersion] = l
	}
	for _, g := range a.groups {
		for _, version := range ordered(g) {
			gv := schema.GroupVersion{Group: g.Name, Version: version}
			if l := lists[gv.String()]; l != nil {
				o.answered[gv] = true
				o.add(gv, l)
			}
		}
	}
	if before != nil {
		o.keep(before, a.failed)
	}
	for gv := range a.failed {
		if before != nil && before.answered[gv] {
			o.answered[gv] = true
		} else {
			o.unknown = append(o.unknown, gv)
		}
	}
	slices.SortFunc(o.unknown, func(a, b schema.GroupVersion) int { return strings.Compare(a.String(), b.String()) })
	return o
}

// ordered are a group's versions, the preferred one first.
func ordered(g *metav1.APIGroup) []string {
	versions := []string{g.PreferredVersion.Version}
	for _, v := range g.Versions {
		if v.Version != g.PreferredVersion.Version {
			versions = append(versions, v.Version)
		}
	}
	return versions
}

func (o *Offers) add(gv schema.GroupVersion, l *metav1.APIResourceList) {
	for i := range l.APIResources {
		r := &l.APIResources[i]
		readable := slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch")
		if !readable || strings.Contains(r.Name, "/") {
			continue
		}
		names := []string{r.SingularName, strings.ToLower(r.Kind)}
		o.put(source.Resource{Group: gv.Group, Version: gv.Version, Resource: r.Name, Kind: r.Kind, Namespaced: r.Namespaced},
			append(names, r.ShortNames...))
	}
}

func (o *Offers) put(r source.Resource, names []string) {
	s := o.Get(r.Group, r.Resource)
	if s == nil {
		s = &Served{Group: r.Group, Resource: r.Resource}
		o.served[r.GroupResource()] = s
	}
	s.Versions = append(s.Versions, r)
	for _, name := range names {
		if name != "" && !slices.Contains(s.Names, name) {
			s.Names = append(s.Names, name)
		}
	}
}

// keep adds what was known before of versions that failed.
func (o *Offers) keep(before *Offers, failed map[schema.GroupVersion]error) {
	if len(failed) == 0 {
		return
	}
	for _, s := range before.All() {
		for _, r := range s.Versions {
			if _, ok := failed[schema.GroupVersion{Group: r.Group, Version: r.Version}]; ok {
				o.put(r, s.Names)
			}
		}
	}
}
