// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// said is what objects allow: "namespace verb group/resource", and who is bound.
func said(objects []Object) (allowed, bound []string) {
	for _, o := range objects {
		for _, r := range o.Rules {
			for _, verb := range r.Verbs {
				for _, resource := range r.Resources {
					name := ""
					if len(r.ResourceNames) > 0 {
						name = " " + r.ResourceNames[0]
					}
					allowed = append(allowed, fmt.Sprintf("%s %s %s/%s%s", o.Metadata.Namespace, verb, r.APIGroups[0], resource, name))
				}
			}
		}
		for _, s := range o.Subjects {
			bound = append(bound, fmt.Sprintf("%s %s/%s to %s %s", o.Metadata.Namespace, s.Namespace, s.Name, o.RoleRef.Kind,
				o.RoleRef.Name))
		}
	}
	return allowed, bound
}

// reads returns what it takes to read: each text is "namespace group/resource", without a namespace for all.
func reads(texts ...string) (all []Access) {
	for _, text := range texts {
		namespace, name, found := strings.Cut(text, " ")
		if !found {
			namespace, name = "", text
		}
		group, resource, _ := strings.Cut(name, "/")
		all = append(all, Reads(group, resource, namespace)...)
	}
	return all
}

func TestLeast_allows_what_is_read_and_nothing_else(t *testing.T) {
	needed := slices.Concat(Identify(), reads("web /pods", "apps/deployments", "apps/daemonsets",
		"web apps/deployments", // is read everywhere already
		"web /configmaps", "shop /configmaps", "web /pods"))
	allowed, bound := said(Least(needed, Names{Role: "r", Account: "bridge"}))
	want := " get /namespaces kube-system, list apps/daemonsets, list apps/deployments, watch apps/daemonsets, watch " +
		"apps/deployments,shop list /configmaps,shop watch /configmaps,web list /configmaps,web list /pods,web watch " +
		"/configmaps,web watch /pods"
	assert.Equal(t, want, strings.Join(allowed, ","))
	assert.Equal(t, " default/bridge to ClusterRole r,shop default/bridge to Role r,web default/bridge to Role r",
		strings.Join(bound, ","), "bound")
	_, bound = said(Least(needed, Names{Role: "r"}))
	assert.Nil(t, bound, "bound")
}

func TestLeast_allows_to_stand_for_a_lease(t *testing.T) {
	for _, c := range []struct {
		reads       []string
		first, last string
	}{
		{nil, "", ""},
		{[]string{"ops /pods"}, "", ",ops list /pods,ops watch /pods"},
		{
			[]string{"coordination.k8s.io/leases"},
			" list coordination.k8s.io/leases, watch coordination.k8s.io/leases,", "",
		},
	} {
		allowed, _ := said(Least(append(reads(c.reads...), Leads("ops", "bridge")...), Names{Role: "r"}))
		want := c.first + "ops get coordination.k8s.io/leases bridge,ops update coordination.k8s.io/leases bridge" +
			c.last + ",ops create coordination.k8s.io/leases"
		assert.ElementsMatch(t, strings.Split(want, ","), allowed)
	}
}

func TestLeast_allows_a_replica_to_write(t *testing.T) {
	for name, c := range map[string]struct {
		needed []Access
		want   string
	}{
		"a namespace": {
			slices.Concat(Writes("", "configmaps", "shop", false), Remembers("ops", "a")),
			"ops get /configmaps a,ops update /configmaps a,ops create /configmaps,shop get /configmaps,shop list " +
				"/configmaps,shop watch /configmaps,shop create /configmaps,shop update /configmaps,shop patch " +
				"/configmaps,shop delete /configmaps",
		},
		"what is its own among what it writes": {
			slices.Concat(Writes("", "configmaps", "", false), Remembers("ops", "a")),
			" get /configmaps, list /configmaps, watch /configmaps, create /configmaps, update /configmaps, patch " +
				"/configmaps, delete /configmaps",
		},
		"what is read everywhere": {
			slices.Concat(Identify(), reads("/pods"), Writes("", "pods", "shop", true)),
			" get /namespaces kube-system, list /pods, watch /pods,shop get /pods,shop create /pods,shop update " +
				"/pods,shop patch /pods,shop delete /pods,shop patch /pods/status",
		},
		"bindings": {
			Writes("rbac.authorization.k8s.io", "rolebindings", "shop", false),
			"shop bind rbac.authorization.k8s.io/clusterroles,shop bind rbac.authorization.k8s.io/roles,shop get " +
				"rbac.authorization.k8s.io/rolebindings,shop list rbac.authorization.k8s.io/rolebindings,shop watch " +
				"rbac.authorization.k8s.io/rolebindings,shop create rbac.authorization.k8s.io/rolebindings,shop update " +
				"rbac.authorization.k8s.io/rolebindings,shop patch rbac.authorization.k8s.io/rolebindings,shop delete " +
				"rbac.authorization.k8s.io/rolebindings",
		},
	} {
		allowed, _ := said(Least(c.needed, Names{Role: "r"}))
		assert.Equal(t, c.want, strings.Join(allowed, ","), name)
	}
}

// Whatever is needed is allowed once, and each thing that is allowed is needed.
func TestLeast_has_no_rule_too_many_and_none_too_few(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		needed := rapid.SliceOf(rapid.Custom(func(rt *rapid.T) Access {
			return Access{
				Group:     rapid.SampledFrom([]string{"", "apps", "x.io"}).Draw(rt, "group"),
				Resource:  rapid.SampledFrom([]string{"a", "b", "a/status"}).Draw(rt, "resource"),
				Namespace: rapid.SampledFrom([]string{"", "", "n", "m"}).Draw(rt, "namespace"),
				Name:      rapid.SampledFrom([]string{"", "", "x"}).Draw(rt, "name"),
				Verb:      rapid.SampledFrom([]string{"get", "list", "delete"}).Draw(rt, "verb"),
			}
		})).Draw(rt, "needed")
		allowed, _ := said(Least(needed, Names{Role: "r"}))
		want := map[string]bool{}
		for _, a := range needed {
			everywhere, anyName, any := a, a, a
			everywhere.Namespace, anyName.Name = "", ""
			any.Namespace, any.Name = "", ""
			for _, wider := range []Access{everywhere, anyName, any} {
				if slices.Contains(needed, wider) {
					a = wider
				}
			}
			want[strings.TrimSpace(fmt.Sprintf("%s.%s %s/%s %s", a.Namespace, a.Verb, a.Group, a.Resource, a.Name))] = true
		}
		assert.Len(rt, allowed, len(want), "allowed, %d needed: %v for %v", len(want), allowed, needed)
		for _, a := range allowed {
			assert.True(rt, want[strings.Replace(a, " ", ".", 1)], "%q is not needed for %v", a, needed)
		}
	})
}

// What a wildcard allows needs no rule of its own, and what it takes to follow resources is allowed with it.
func TestLeast_allows_a_wildcard_all_of_its_group_and_the_definitions(t *testing.T) {
	const definitions = " get apiextensions.k8s.io/customresourcedefinitions, list " +
		"apiextensions.k8s.io/customresourcedefinitions, watch apiextensions.k8s.io/customresourcedefinitions, get " +
		"apiregistration.k8s.io/apiservices, list apiregistration.k8s.io/apiservices, watch " +
		"apiregistration.k8s.io/apiservices"
	for name, c := range map[string]struct {
		reads []string
		want  string
	}{
		"a group": {
			[]string{"x.io/*", "x.io/as", "web x.io/as", "web /pods"},
			definitions + ", list x.io/*, watch x.io/*,web list /pods,web watch /pods",
		},
		"all groups": {
			[]string{"*/*", "x.io/*", "web /pods"},
			" list */*, watch */*, get apiextensions.k8s.io/customresourcedefinitions, get " +
				"apiregistration.k8s.io/apiservices",
		},
		"a group in one place": {
			[]string{"web x.io/*", "web x.io/as", "shop x.io/as"},
			definitions + ",shop list x.io/as,shop watch x.io/as,web list x.io/*,web watch x.io/*",
		},
	} {
		allowed, _ := said(Least(reads(c.reads...), Names{Role: "r"}))
		assert.Equal(t, c.want, strings.Join(allowed, ","), name)
	}
}
