// SPDX-License-Identifier: Apache-2.0

// Package rbac says what a bridge has to be allowed to do in a cluster, as roles and bindings.
package rbac

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Names are what the objects are called, and whom they are for.
type Names struct {
	// Role is the name of every role and binding.
	Role string
	// Account is a service account in AccountNamespace; empty: nothing is bound.
	Account, AccountNamespace string
}

// Object is a role or a binding, as the API server takes it.
type Object struct {
	APIVersion string    `yaml:"apiVersion"`
	Kind       string    `yaml:"kind"`
	Metadata   Metadata  `yaml:"metadata"`
	Rules      []Rule    `yaml:"rules,omitempty"`
	RoleRef    *RoleRef  `yaml:"roleRef,omitempty"`
	Subjects   []Subject `yaml:"subjects,omitempty"`
}

// Metadata is an object's.
type Metadata struct {
	Name      string `yaml:"name"`
	Namespace string `yaml:"namespace,omitempty"`
}

// Rule allows verbs.
type Rule struct {
	APIGroups     []string `yaml:"apiGroups,flow"`
	Resources     []string `yaml:"resources,flow"`
	ResourceNames []string `yaml:"resourceNames,flow,omitempty"`
	Verbs         []string `yaml:"verbs,flow"`
}

// RoleRef is the role of a binding.
type RoleRef struct {
	APIGroup string `yaml:"apiGroup"`
	Kind     string `yaml:"kind"`
	Name     string `yaml:"name"`
}

// Subject is who is bound.
type Subject struct {
	Kind      string `yaml:"kind"`
	Name      string `yaml:"name"`
	Namespace string `yaml:"namespace"`
}

const (
	apiGroup   = "rbac.authorization.k8s.io"
	apiVersion = apiGroup + "/v1"
)

// thing is what a rule allows verbs on.
type thing struct{ group, resource, name string }

// Least returns the roles that allow what is needed and nothing else, without any rule that another one makes
// superfluous, and their bindings. What each authenticated user may do, as discovery, is for the caller to leave out.
func Least(needed []Access, n Names) []Object {
	all := make(map[Access]struct{}, len(needed))
	for _, a := range needed {
		all[a] = struct{}{}
	}
	within := map[string]map[thing][]string{}
	for a := range all {
		if a.isCovered(all) {
			continue
		}
		if within[a.Namespace] == nil {
			within[a.Namespace] = map[thing][]string{}
		}
		at := thing{a.Group, a.Resource, a.Name}
		within[a.Namespace][at] = append(within[a.Namespace][at], a.Verb)
	}
	var objects []Object
	for _, namespace := range slices.Sorted(maps.Keys(within)) {
		objects = append(objects, n.grant(namespace, rules(within[namespace]))...)
	}
	return objects
}

// rules allow verbs: those on objects that are named come first. Resources of a group that need the same are in one
// rule.
func rules(verbs map[thing][]string) []Rule {
	type same struct{ group, name, verbs string }
	resources := map[same][]string{}
	for at, all := range verbs {
		slices.SortFunc(all, func(a, b string) int { return slices.Index(verbOrder, a) - slices.Index(verbOrder, b) })
		of := same{at.group, at.name, strings.Join(all, " ")}
		resources[of] = append(resources[of], at.resource)
	}
	var all []Rule
	for of, plurals := range resources {
		slices.Sort(plurals)
		r := Rule{APIGroups: []string{of.group}, Resources: plurals, Verbs: strings.Fields(of.verbs)}
		if of.name != "" {
			r.ResourceNames = []string{of.name}
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Rule) int {
		return cmp.Or(len(b.ResourceNames)-len(a.ResourceNames), slices.Compare(a.APIGroups, b.APIGroups),
			slices.Compare(a.Resources, b.Resources), slices.Compare(a.ResourceNames, b.ResourceNames))
	})
	return all
}

// grant returns a role, of a namespace unless that is empty, and its binding.
func (n Names) grant(namespace string, rules []Rule) []Object {
	kind := "Role"
	if namespace == "" {
		kind = "ClusterRole"
	}
	at := Metadata{Name: n.Role, Namespace: namespace}
	objects := []Object{{APIVersion: apiVersion, Kind: kind, Metadata: at, Rules: rules}}
	if n.Account != "" {
		objects = append(objects, Object{
			APIVersion: apiVersion, Kind: kind + "Binding", Metadata: at,
			RoleRef:  &RoleRef{APIGroup: apiGroup, Kind: kind, Name: n.Role},
			Subjects: []Subject{{Kind: "ServiceAccount", Name: n.Account, Namespace: cmp.Or(n.AccountNamespace, "default")}},
		})
	}
	return objects
}

// Values are those of the Helm chart that say what a bridge may do. The chart makes the roles and bindings, and adds
// the rules for its Lease.
type Values struct {
	RBAC struct {
		Rules           []Rule            `yaml:"rules"`
		NamespacedRules map[string][]Rule `yaml:"namespacedRules"`
	} `yaml:"rbac"`
}

// ValuesOf returns the rules of roles as values of the chart.
func ValuesOf(objects []Object) (v Values) {
	v.RBAC.NamespacedRules = map[string][]Rule{}
	for _, o := range objects {
		switch o.Kind {
		case "ClusterRole":
			v.RBAC.Rules = append(v.RBAC.Rules, o.Rules...)
		case "Role":
			v.RBAC.NamespacedRules[o.Metadata.Namespace] = append(v.RBAC.NamespacedRules[o.Metadata.Namespace], o.Rules...)
		}
	}
	return v
}
