// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config/value"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
)

// replicas checks what depends on several keys of replicas, or is allowed and costs something.
func (c *checker) replicas() {
	names := map[string]bool{}
	for i := range c.Replicas {
		at, r := fmt.Sprintf("replicas[%d]", i), &c.Replicas[i]
		if r.Name != "" && names[r.Name] {
			c.Once(at+".name", "%q is taken by another replica; give each a name of its own", r.Name)
		}
		names[r.Name] = true
		if n := r.From.NATS; n != nil {
			checkAccess(c, at+".from.nats", n.Servers, &n.NATSAccess)
		}
		if k := r.From.Kafka; k != nil && k.SASL != nil {
			checkSASL(c, at+".from.kafka.sasl", k.SASL, k.TLS != nil)
		}
		c.replicated(at, r)
		c.mapped(at+".into.namespaces", r)
		c.sameCluster(at+".from.cluster", r)
	}
}

// replicated checks each resource of a replica, and against those before it.
func (c *checker) replicated(path string, r *Replica) {
	resources := make([]Resource, len(r.Resources))
	for i, o := range r.Resources {
		resources[i] = Resource{Resource: o.Resource, Namespaces: o.Namespaces}
		at, name := fmt.Sprintf("%s.resources[%d]", path, i), o.Resource
		switch {
		case name.Wildcard():
			c.Once(at+".resource", "%v names many resources, and a replica names each that it writes; write plural[.group], "+
				"such as configmaps or deployments.apps", name)
		case name.Version != "" && name.Group != "":
			c.Once(at+".resource", "%v has a version, and objects are written in the one that the log has; write %v", name,
				value.ResourceName{Plural: name.Plural, Group: name.Group})
		case name.Unresolved() && !name.Builtin() && name != (value.ResourceName{}):
			c.Once(at+".resource", "%v is no resource that Kubernetes has by itself, and has no group; write its group, too, "+
				"as in %v.example.com", name, name)
		default:
			c.replicable(at+".resource", name)
		}
		checkSpelling(c, at+".resource", name)
		c.scope(at, &resources[i])
		c.paths(at+".ignore", o.Ignore, resources[i])
	}
	c.overlaps(path, resources, "an object belongs to one entry of a replica; give them different namespaces or groups")
}

// neverReplicated reports whether objects of a resource would harm another cluster, or mean nothing there.
func neverReplicated(resource schema.GroupResource) bool {
	switch resource.String() {
	case "events", "events.events.k8s.io", "leases.coordination.k8s.io", "nodes", "componentstatuses",
		"csinodes.storage.k8s.io", "csistoragecapacities.storage.k8s.io", "volumeattachments.storage.k8s.io":
		return true
	default:
		return false
	}
}

// replicable refuses a resource that is never replicated, and warns of one that others leave out.
func (c *checker) replicable(path string, name value.ResourceName) {
	known, _ := name.Known()
	resource := schema.GroupResource{Group: cmp.Or(name.Group, known.Group), Resource: name.Meaning().FullPlural}
	if neverReplicated(resource) {
		c.Once(path, "%v describes the cluster that it is in, and is never replicated; remove it", name)
	} else if why, excluded := clean.Excluded(resource); excluded {
		c.Warn(path, "%v is rarely of use in another cluster: %s", name, strings.TrimSuffix(why, "."))
	}
}

// mapped checks that other names of namespaces are of use, and that no two namespaces become one.
func (c *checker) mapped(path string, r *Replica) {
	selected, all := map[string]bool{}, false
	for _, o := range r.Resources {
		known, found := o.Resource.Known()
		for _, ns := range o.Namespaces {
			selected[ns] = true
		}
		// Objects of resource namespaces get the other names, too.
		all = all || len(o.Namespaces) == 0 && (!found || known.Namespaced || o.Resource.Meaning().FullPlural == "namespaces")
	}
	from := map[string]string{}
	for _, source := range slices.Sorted(maps.Keys(r.Into.Namespaces)) {
		target, at := r.Into.Namespaces[source], path+"."+source
		_, moves := r.Into.Namespaces[target]
		other, taken := from[target]
		from[target] = source
		switch {
		case !selected[source] && !all:
			c.Once(at, "no resource of the replica is in namespace %q; add it to the namespaces of one, or remove it here",
				source)
		case taken:
			c.Once(at, "%q is where namespace %q goes, too, and objects of both would meet there; give each a name of its own",
				target, other)
		case moves:
		case selected[target]:
			c.Once(at, "%q is also selected and keeps its name, so that objects of both would meet there; map it to another "+
				"name, or this one", target)
		case all:
			c.Warn(at, "objects of a namespace %q in the log's cluster are left out, as others are written there; map it, too, "+
				"if there is one", target)
		}
	}
}

// sameCluster refuses a replica that would write what it reads.
func (c *checker) sameCluster(path string, r *Replica) {
	if c.Cluster == "" || r.From.Cluster != c.Cluster {
		return
	}
	for _, stays := range r.Stays() {
		c.Once(path, "%q is the cluster that is written to, and %s stays where it is; "+StaysAdvice, c.Cluster, stays)
	}
}

// StaysAdvice says how a replica can be in its own cluster.
const StaysAdvice = "a replica in its own cluster needs namespaces for each resource, each with a name in " +
	"into.namespaces that is not one of them"

// Stays returns what a replica writes where it reads it, if its log is of the cluster that it writes to: one resource
// or namespace for each of the resources that have any.
func (r *Replica) Stays() (all []string) {
	selected := map[string]bool{}
	for _, o := range r.Resources {
		for _, ns := range o.Namespaces {
			selected[ns] = true
		}
	}
	stays := func(ns string) bool {
		target, moved := r.Into.Namespaces[ns]
		return !moved || selected[target]
	}
	for _, o := range r.Resources {
		if len(o.Namespaces) == 0 {
			all = append(all, o.Resource.String())
		} else if i := slices.IndexFunc(o.Namespaces, stays); i >= 0 {
			all = append(all, fmt.Sprintf("namespace %q", o.Namespaces[i]))
		}
	}
	return all
}
