// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/internal/builtin"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config/rules"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config/value"
	"github.com/kube-eventbridge/kube-eventbridge/internal/filter"
)

// resources checks each resource of a pipeline, and against those before it whose names mean the same plural.
func (c *checker) resources(path string, p *Pipeline) {
	for i := range p.Resources {
		at, r := fmt.Sprintf("%s.resources[%d]", path, i), &p.Resources[i]
		checkSpelling(c, at+".resource", r.Resource)
		c.scope(at, r)
		c.selection(at, r)
		c.operations(at, r)
	}
	c.overlaps(path, p.Resources, "an object belongs to one stream of a pipeline; give them different namespaces or "+
		"groups, or move one to another pipeline")
}

// overlaps refuses each resource that may name the same objects as one before it. The rest of the message says what is
// allowed.
func (c *checker) overlaps(path string, resources []Resource, rest string) {
	mean, before := meanings(resources), map[string][]int{}
	for i := range resources {
		r, plural := &resources[i], mean[i].FullPlural
		for _, j := range before[plural] {
			o := &resources[j]
			if r.Resource != (value.ResourceName{}) && mean[i].Overlaps(mean[j]) && shareNamespace(r.Namespaces, o.Namespaces) {
				c.Once(fmt.Sprintf("%s.resources[%d].resource", path, i), "%v may name the same objects as %v before it, and %s",
					r.Resource, o.Resource, rest)
			}
		}
		before[plural] = append(before[plural], i)
	}
}

// meanings returns those of the names of resources, in their order.
func meanings(of []Resource) []value.Meaning {
	all := make([]value.Meaning, len(of))
	for i := range of {
		all[i] = of[i].Resource.Meaning()
	}
	return all
}

// shareNamespace reports whether a namespace may be in both lists; an empty list has them all.
func shareNamespace(a, b []string) bool {
	return len(a) == 0 || len(b) == 0 || slices.ContainsFunc(a, func(ns string) bool { return slices.Contains(b, ns) })
}

// checkSpelling warns of a name that no built-in resource of API servers has, where it should be one, or is nearly one.
func checkSpelling(c *checker, path string, name value.ResourceName) {
	inGroup := !name.Unresolved()
	names := builtin.Every()[name.Group]
	if !inGroup {
		names = slices.Concat(slices.Collect(maps.Values(builtin.Every()))...)
	}
	if name.Wildcard() || name == (value.ResourceName{}) || names == nil || name.Builtin() {
		return
	}
	slices.Sort(names)
	like, similar := rules.Closest(name.Plural, names)
	const unknown = "%v is no resource that Kubernetes 1.36 has by itself"
	switch meant := (value.ResourceName{Plural: like, Version: name.Version, Group: name.Group}); {
	case similar && (inGroup || rules.EditDistance(name.Plural, like) == 1):
		c.Warn(path, unknown+", did you mean %v?", name, meant)
	case inGroup:
		c.Warn(path, unknown+", and its group is one of Kubernetes", name)
	}
}

// scope refuses namespaces of a resource that Kubernetes has by itself, and that is in none.
func (c *checker) scope(path string, r *Resource) {
	switch known, found := r.Resource.Known(); {
	case !found || known.Namespaced:
	case len(r.Namespaces) > 0:
		c.Add(path+".namespaces", "resource %v is cluster-scoped and cannot be read in namespace %q; remove its namespaces",
			r.Resource, r.Namespaces[0])
	case r.NamespaceSelector != "":
		c.Add(path+".namespaceSelector",
			"resource %v is cluster-scoped and cannot be read in selected namespaces; remove its namespaceSelector", r.Resource)
	}
}

// selection checks what a wildcard selects and leaves out.
func (c *checker) selection(path string, r *Resource) {
	wildcard := r.Resource.Wildcard()
	if s, err := fields.ParseSelector(r.FieldSelector); err == nil && wildcard {
		for _, term := range s.Requirements() {
			if term.Field != "metadata.name" && term.Field != "metadata.namespace" {
				c.Once(path+".fieldSelector",
					"selects by %s, which not every resource has; with a wildcard use metadata.name or metadata.namespace, "+
						"or name the resource in an entry of its own", term.Field)
			}
		}
	}
	if len(r.Exclude) > 0 && !wildcard && r.Resource != (value.ResourceName{}) {
		c.Add(path+".exclude",
			"is for entries that name many resources, and %v names one; remove it, or write resource: \"*\"", r.Resource)
		return
	}
	for i, e := range r.Exclude {
		switch at := fmt.Sprintf("%s.exclude[%d]", path, i); {
		case e == r.Resource && wildcard, e == value.ResourceName{Plural: "*"}:
			c.Once(at, "%v leaves nothing; name what is to be left out, such as events or \"*.metrics.k8s.io\"", e)
		case r.Resource.Beyond(e):
			c.Warn(at, "%v is nothing that %v names, so it leaves nothing out; name a resource of %s, or remove it", e,
				r.Resource, r.Resource.Group)
		}
	}
}

// operations checks what is about updates, and warns of what a filter fails without.
func (c *checker) operations(path string, r *Resource) {
	if len(r.Operations) > 0 && !slices.Contains(r.Operations, Updated) {
		if len(r.IgnoreChanges) > 0 {
			c.Add(path+".ignoreChanges",
				"is about updates, which operations does not list; add updated, or remove ignoreChanges")
		}
		if r.Resync != 0 {
			c.Once(path+".resync", "publishes updates, which operations does not list; add updated, or remove resync")
		}
	}
	e, err := filter.ParseExpression(r.Filter)
	if r.Filter == "" || err != nil {
		return
	}
	var missing, guards []string
	for _, m := range e.Unguarded() {
		missing, guards = append(missing, m.String()), append(guards, m.Guard())
	}
	if len(missing) > 0 {
		becomes := map[OnFilterError]string{OnFilterErrorPublish: "published", OnFilterErrorDrop: "dropped"}[r.OnFilterError]
		c.Warn(path+".filter", "fails where an object has no %s, and the change is then %s (onFilterError: %s); "+
			"guard it where it is used: %s && …", strings.Join(missing, " or no "), becomes, r.OnFilterError,
			strings.Join(guards, " && "))
	}
}

// hasTexts reports whether the resource is known to be one whose data are texts.
func (r *Resource) hasTexts() bool {
	plural := cmp.Or(builtin.Plural(r.Resource.Plural, "", true), r.Resource.Plural)
	return r.Resource.Group == "" && (plural == "configmaps" || plural == "secrets")
}

// parsedPaths returns what the paths mean; the zero Path where one is not valid.
func parsedPaths(all []string) []jsonscan.Path {
	parsed := make([]jsonscan.Path, len(all))
	for i, s := range all {
		parsed[i], _ = jsonscan.ParsePath(s)
	}
	return parsed
}

// paths refuses paths that lead into a text, and warns of those that name nothing in any of the resources, as far as it
// is known what they have.
func (c *checker) paths(path string, all []string, resources ...Resource) {
	texts := !slices.ContainsFunc(resources, func(r Resource) bool { return !r.hasTexts() })
	known := !slices.ContainsFunc(resources, func(r Resource) bool { return !r.Resource.Builtin() })
	of := "any of its resources"
	if len(resources) == 1 {
		of = resources[0].Resource.String()
	}
	for i, p := range parsedPaths(all) {
		at := fmt.Sprintf("%s[%d]", path, i)
		if instead := p.Beyond(texts); instead != "" {
			c.Once(at, "path %q names nothing, as what it leads into is a text; write %s", p, instead)
		}
		if first := p.First(); known && first != "" && !builtin.Member(first) {
			c.Warn(at, "%s is no member of %s, so the path names nothing; paths begin at the object, such as data.password",
				first, of)
		}
	}
}
