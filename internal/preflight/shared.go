// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/membership"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/wiring"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/catalog"
)

// resolved is an entry that names one resource, and what that is in the cluster.
type resolved struct {
	entry *config.Resource
	is    source.Resource
}

// shares reports whether both have objects in common, as far as it is known before namespaces are selected: versions of
// a resource are the same objects.
func (r resolved) shares(o resolved) bool {
	same := r.is.Group == o.is.Group && r.is.Resource == o.is.Resource
	return same && slices.ContainsFunc(wiring.ScopesOf(r.entry), func(a string) bool {
		return slices.ContainsFunc(wiring.ScopesOf(o.entry), func(b string) bool { return a == "" || b == "" || a == b })
	})
}

// checkShared checks an entry against those before it in its pipeline, as run does when it knows what their names stand
// for, and returns them with it.
func (c *checkup) checkShared(path string, before []resolved, r resolved) []resolved {
	if i := slices.IndexFunc(before, r.shares); i >= 0 {
		add(&c.Problems, path+".resource",
			"%v and %v before it are one resource, %v, with objects in common, and an object belongs to one stream of a "+
				"pipeline; remove one, or give them different namespaces", r.entry.Resource, before[i].entry.Resource, r.is)
	}
	return append(before, r)
}

// checkMeaning warns of a name that may mean several resources. It returns the one that is read.
func (c *checkup) checkMeaning(
	ctx context.Context, catalog *catalog.Catalog, path string, r *config.Resource, found source.Resource,
) source.Resource {
	offers, _ := catalog.Now()
	if offers == nil {
		offers, _ = catalog.Look(ctx)
	}
	if offers == nil {
		return found // checkResource says so
	}
	entry := []membership.Spec{{Resource: r.Resource.Arg()}}
	plan, problems := membership.Plan(
		entry, membership.Offers{Known: true, Served: offers.All()}, membership.Namespaces{}, nil)
	for _, p := range problems {
		if p.Kind == membership.Ambiguous {
			add(&c.Warnings, path+".resource", "%s may mean several resources: %s; a new pipeline reads the first one, and one "+
				"that has read another one before goes on with that; name it with its group",
				r.Resource, strings.Join(p.Resources, ", "))
		}
	}
	if len(plan) == 0 {
		return found
	}
	return plan[0].Stream.Resource
}

// Misread returns what the API server shows to be wrong with what pipeline i reads, as run would end for. What the API
// server does not know, or cannot be asked, is not.
func Misread(d *catalog.Discovery, i int, p *config.Pipeline) config.Problems {
	c := &checkup{}
	var before []resolved
	for j := range p.Resources {
		r, path := &p.Resources[j], fmt.Sprintf("pipelines[%d].resources[%d]", i, j)
		if r.Resource.Wildcard() {
			continue
		}
		found, err := d.Resolve(r.Resource.Arg())
		switch {
		case apimeta.IsNoMatchError(err):
		case err != nil:
			return c.Problems
		case c.checkScope(path, r, found):
			before = c.checkShared(path, before, resolved{r, found})
		}
	}
	return c.Problems
}

// checkScope reports whether a resource can be read in the namespaces of an entry.
func (c *checkup) checkScope(path string, r *config.Resource, found source.Resource) bool {
	switch {
	case found.Namespaced:
	case len(r.Namespaces) > 0:
		add(&c.Problems, path+".namespaces",
			"resource %s is cluster-scoped and cannot be read in namespace %q; remove its namespaces", r.Resource,
			r.Namespaces[0])
		return false
	case r.NamespaceSelector != "":
		add(&c.Problems, path+".namespaceSelector",
			"resource %s is cluster-scoped and cannot be read in selected namespaces; remove its namespaceSelector", r.Resource)
		return false
	}
	return true
}
