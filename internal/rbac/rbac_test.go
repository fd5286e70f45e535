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

func TestLeast_allows_what_is_read_and_nothing_else(t *testing.T) {
	reads := []Read{
		{"", "pods", "web"},
		{"apps", "deployments", ""},
		{"apps", "daemonsets", ""},
		{"apps", "deployments", "web"}, // is read everywhere already
		{"", "configmaps", "web"},
		{"", "configmaps", "shop"},
		{"", "pods", "web"},
	}
	allowed, bound := said(Least(reads, nil, Names{Role: "r", Account: "bridge"}))
	want := " get /namespaces kube-system, list apps/daemonsets, list apps/deployments, watch apps/daemonsets, watch " +
		"apps/deployments,shop list /configmaps,shop watch /configmaps,web list /configmaps,web list /pods,web watch " +
		"/configmaps,web watch /pods"
	assert.Equal(t, want, strings.Join(allowed, ","))
	assert.Equal(t, " default/bridge to ClusterRole r,shop default/bridge to Role r,web default/bridge to Role r",
		strings.Join(bound, ","), "bound")
	_, bound = said(Least(reads, nil, Names{Role: "r"}))
	assert.Nil(t, bound, "bound")
}

func TestLeast_allows_to_stand_for_a_lease(t *testing.T) {
	for _, c := range []struct {
		reads []Read
		want  string
	}{
		{nil, "get /namespaces kube-system"},
		{[]Read{{"", "pods", "ops"}}, "get /namespaces kube-system,ops list /pods,ops watch /pods"},
		{
			[]Read{{"coordination.k8s.io", "leases", ""}},
			"get /namespaces kube-system, list coordination.k8s.io/leases, watch coordination.k8s.io/leases",
		},
	} {
		allowed, bound := said(Least(c.reads, &Lease{"ops", "bridge"}, Names{Role: "r", Account: "bridge"}))
		want := " " + c.want +
			",ops create coordination.k8s.io/leases,ops get coordination.k8s.io/leases bridge,ops update " +
			"coordination.k8s.io/leases bridge"
		assert.Equal(t, want, strings.Join(allowed, ","))
		assert.Equal(t, " default/bridge to ClusterRole r,ops default/bridge to Role r", strings.Join(bound, ","),
			"bound")
	}
}

// Whatever is read is allowed once, and each thing that is allowed is read.
func TestLeast_has_no_rule_too_many_and_none_too_few(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		reads := rapid.SliceOf(rapid.Custom(func(rt *rapid.T) Read {
			return Read{
				rapid.SampledFrom([]string{"", "apps", "x.io"}).Draw(rt, "group"),
				rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "resource"),
				rapid.SampledFrom([]string{"", "", "n", "m"}).Draw(rt, "namespace"),
			}
		})).Draw(rt, "reads")
		allowed, _ := said(Least(reads, nil, Names{Role: "r"}))
		want := map[string]bool{" get /namespaces kube-system": true}
		for _, r := range reads {
			if slices.Contains(reads, Read{r.Group, r.Resource, ""}) {
				r.Namespace = ""
			}
			for _, verb := range []string{"list", "watch"} {
				want[fmt.Sprintf("%s %s %s/%s", r.Namespace, verb, r.Group, r.Resource)] = true
			}
		}
		assert.Len(rt, allowed, len(want), "allowed, %d needed: %v for %v", len(want), allowed, reads)
		for _, a := range allowed {
			assert.True(rt, want[a], "%q is not needed for %v", a, reads)
		}
	})
}

// What a wildcard allows needs no rule of its own, and what it takes to follow resources is allowed with it.
func TestLeast_allows_a_wildcard_all_of_its_group_and_the_definitions(t *testing.T) {
	const look = " get /namespaces kube-system, get apiextensions.k8s.io/customresourcedefinitions, get " +
		"apiregistration.k8s.io/apiservices,"
	const definitions = " list apiextensions.k8s.io/customresourcedefinitions, watch " +
		"apiextensions.k8s.io/customresourcedefinitions, list apiregistration.k8s.io/apiservices, watch " +
		"apiregistration.k8s.io/apiservices"
	for name, c := range map[string]struct {
		reads []Read
		want  string
	}{
		"a group": {
			[]Read{{"x.io", Any, ""}, {"x.io", "as", ""}, {"x.io", "as", "web"}, {"", "pods", "web"}},
			look + definitions + ", list x.io/*, watch x.io/*,web list /pods,web watch /pods",
		},
		"all groups": {
			[]Read{{Any, Any, ""}, {"x.io", Any, ""}, {"", "pods", "web"}},
			look + " list */*, watch */*",
		},
		"a group in one place": {
			[]Read{{"x.io", Any, "web"}, {"x.io", "as", "web"}, {"x.io", "as", "shop"}},
			look + definitions + ",shop list x.io/as,shop watch x.io/as,web list x.io/*,web watch x.io/*",
		},
	} {
		allowed, _ := said(Least(c.reads, nil, Names{Role: "r"}))
		assert.Equal(t, c.want, strings.Join(allowed, ","), name)
	}
}
