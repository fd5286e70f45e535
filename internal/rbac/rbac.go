// SPDX-License-Identifier: Apache-2.0

// Package rbac says what a bridge has to be allowed to do in a cluster, as roles and bindings.
package rbac

import (
	"cmp"
	"maps"
	"slices"
)

// Any stands for all groups, or for all resources of a group.
const Any = "*"

// Read is a resource that is listed and watched.
type Read struct {
	// Each of the two may be Any.
	Group, Resource string
	// Namespace is empty for all of them, and for a resource that is in none.
	Namespace string
}

// Lease is one by which processes agree who leads.
type Lease struct{ Namespace, Name string }

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

// covers reports whether whoever may read r may read o too.
func (r Read) covers(o Read) bool {
	group := r.Group == o.Group || r.Group == Any
	resource := r.Resource == o.Resource || r.Resource == Any
	return group && resource && (r.Namespace == "" || r.Namespace == o.Namespace)
}

// definitions are what tells that resources come and go.
var definitions = []Read{
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
	{Group: "apiregistration.k8s.io", Resource: "apiservices"},
}

// Least returns the roles that a bridge needs for what it reads, without any rule that it can do without, and their
// bindings. Everything but what it reads is a get of the namespace kube-system, whose uid tells clusters apart, and
// where all resources of a group are read, of the definitions that say which those are; what each authenticated user
// may do, as discovery, is in no rule. A lease, which may be nil, may be made, and that one be read and changed.
func Least(reads []Read, lease *Lease, n Names) []Object {
	var look []Rule
	if slices.ContainsFunc(reads, func(r Read) bool { return r.Resource == Any }) {
		reads = append(slices.Clone(reads), definitions...)
		for _, d := range definitions {
			look = append(look, Rule{APIGroups: []string{d.Group}, Resources: []string{d.Resource}, Verbs: []string{"get"}})
		}
	}
	within := map[string]map[Read]bool{"": {}}
	for i, r := range reads {
		covered := func(o Read) bool { return o != r && o.covers(r) }
		if slices.Contains(reads[:i], r) || slices.ContainsFunc(reads, covered) {
			continue
		}
		if within[r.Namespace] == nil {
			within[r.Namespace] = map[Read]bool{}
		}
		within[r.Namespace][Read{Group: r.Group, Resource: r.Resource}] = true
	}
	everywhere := within[""]
	delete(within, "")
	identify := Rule{
		APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{"kube-system"},
		Verbs: []string{"get"},
	}
	objects := n.grant("", slices.Concat([]Rule{identify}, look, rules(everywhere)))
	if lease != nil && within[lease.Namespace] == nil {
		within[lease.Namespace] = nil
	}
	for _, namespace := range slices.Sorted(maps.Keys(within)) {
		objects = append(objects, n.grant(namespace, append(rules(within[namespace]), lease.rules(namespace)...))...)
	}
	return objects
}

// rules allow to stand for a lease in a namespace. What is to be made cannot be named.
func (l *Lease) rules(namespace string) []Rule {
	if l == nil || l.Namespace != namespace {
		return nil
	}
	groups, leases := []string{"coordination.k8s.io"}, []string{"leases"}
	return []Rule{
		{APIGroups: groups, Resources: leases, Verbs: []string{"create"}},
		{APIGroups: groups, Resources: leases, ResourceNames: []string{l.Name}, Verbs: []string{"get", "update"}},
	}
}

// rules allow to read resources: one rule for each group.
func rules(reads map[Read]bool) []Rule {
	byGroup := map[string][]string{}
	for r := range reads {
		byGroup[r.Group] = append(byGroup[r.Group], r.Resource)
	}
	var all []Rule
	for _, group := range slices.Sorted(maps.Keys(byGroup)) {
		slices.Sort(byGroup[group])
		all = append(all, Rule{APIGroups: []string{group}, Resources: byGroup[group], Verbs: []string{"list", "watch"}})
	}
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
