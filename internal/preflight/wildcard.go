// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"fmt"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/rbac"
	"github.com/kube-eventbridge/kube-eventbridge/internal/wiring"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/catalog"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
)

// Match is how many resources a wildcard names.
type Match struct {
	Path     string `json:"path"`
	Resource string `json:"resource"`
	Count    int    `json:"count"`
}

// checkWildcard asks what a wildcard names, and whether that may be read. What may not be does not stop a bridge, and
// is a warning.
func (c *checkup) checkWildcard(
	ctx context.Context, client *kube.Client, catalog *catalog.Catalog, path string, r *config.Resource,
) {
	offers, err := catalog.Look(ctx)
	if err != nil {
		add(&c.Unreached, path+".resource", "the API server does not say all that it has: %v", err)
	}
	if offers == nil {
		return
	}
	w, namespaced, served := wiring.WildcardOf(r), len(r.Namespaces) > 0 || r.NamespaceSelector != "", offers.All()
	found := w.Select(served, namespaced)
	c.Wildcards = append(c.Wildcards, Match{Path: path + ".resource", Resource: r.Resource.String(), Count: len(found)})
	if err == nil {
		c.checkExcluded(path, r, w.Idle(served))
	}
	if why := w.Nothing(served, namespaced); why != "" && err == nil {
		add(&c.Warnings, path+".resource", "%s selects nothing: %s; what comes is read", r.Resource, why)
	}
	for _, ns := range wiring.ScopesOf(r) {
		c.checkReadable(ctx, client, path, r, ns, found)
	}
}

// checkExcluded warns of what an entry excludes to no effect. What another group's name says is known without a
// cluster.
func (c *checkup) checkExcluded(path string, r *config.Resource, idle []int) {
	for _, i := range idle {
		if e := r.Exclude[i]; !r.Resource.Beyond(e) {
			add(&c.Warnings, fmt.Sprintf("%s.exclude[%d]", path, i),
				"%s is nothing that %s names in the cluster now, so it leaves nothing out; kubectl api-resources lists what "+
					"there is", e, r.Resource)
		}
	}
}

// checkReadable asks whether resources may be read in a scope: for all of them at once, and where that is not allowed
// one by one.
func (c *checkup) checkReadable(
	ctx context.Context, client *kube.Client, path string, r *config.Resource, ns string, found []source.Resource,
) {
	group := r.Resource.Group
	if group == "" {
		group = rbac.Any
	}
	for _, verb := range []string{"list", "watch"} {
		all, err := client.Allowed(ctx, kube.Action{Verb: verb, Group: group, Resource: rbac.Any, Namespace: ns})
		var lacking []string
		for i := 0; err == nil && !all && i < len(found); i++ {
			var allowed bool
			allowed, err = client.Allowed(ctx, kube.Action{
				Verb: verb, Group: found[i].Group, Resource: found[i].Resource,
				Namespace: ns,
			})
			if !allowed {
				lacking = append(lacking, found[i].String())
			}
		}
		switch {
		case err != nil:
			add(&c.Unreached, path, "the API server does not say whether %s %s is allowed: %v", verb, r.Resource, err)
		case len(lacking) > 0:
			add(&c.Warnings, path, "the user of the kubeconfig may not %s %s in %s, which are left out until it may; %s",
				verb, strings.Join(lacking, ", "), scopeName(ns), granted)
		}
	}
}
