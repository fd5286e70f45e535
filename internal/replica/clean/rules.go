// SPDX-License-Identifier: Apache-2.0

package clean

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
)

const (
	// Domain is what this project's labels and annotations begin with.
	Domain = "kube-eventbridge.io/"
	// Label has the name of the replica that an object of the target belongs to. [Rules.Object] sets it.
	Label = Domain + "replica"
	// Origin is the annotation that says what an object of the target is a copy of:
	// <cluster>/<group or core>/<resource>/<namespace or _>/<name>. Who writes the object sets this and the next two.
	Origin = Domain + "origin"
	// OriginUID is the annotation with the uid of the source object.
	OriginUID = Domain + "origin-uid"
	// OriginSequence is the annotation with the sequence of the event that was applied.
	OriginSequence = Domain + "origin-sequence"
)

// Owned says what happens to objects with ownerReferences. Those name their owners by uid, and the garbage collector
// of the target would delete an object whose owners have other uids.
type Owned int

const (
	// Skip leaves out objects with a controlling owner: the owner's controller makes them in the target. Other
	// ownerReferences are removed.
	Skip Owned = iota
	// Drop removes ownerReferences.
	Drop
	// Remap leaves ownerReferences, for [Remapped] to give them the uids that the owners have in the target.
	Remap
)

// Config is what a replica's configuration says about the objects of one of its entries.
type Config struct {
	// Replica is the value of [Label].
	Replica string
	// Cluster is the source's name, as origins have it.
	Cluster string
	// Namespaces has the target namespace of each source namespace that does not keep its name.
	Namespaces map[string]string
	// Selected are the source namespaces of all entries of the replica; none means every namespace.
	Selected []string
	// Labels and Annotations are set on every object, in place of what the source has there.
	Labels, Annotations map[string]string
	// Ignore are the fields that belong to the target.
	Ignore []jsonscan.Path
	// Status says that status is kept.
	Status bool
	Owned  Owned
}

// Rules say how objects change on their way. They never change, and may be used by several goroutines.
type Rules struct {
	Config
	sources map[string]string // by target namespace
}

// New returns an error if the namespaces are not mapped one to one, or if an ignored path has what identifies an
// object. One to one means: no two namespaces have the same target, and no target is a selected namespace that keeps
// its name. If every namespace is selected, the latter cannot be known: then the namespace that keeps its name is left
// out, see [Rules.TargetNamespace].
func New(c Config) (*Rules, error) {
	r := &Rules{c, make(map[string]string, len(c.Namespaces))}
	for _, source := range slices.Sorted(maps.Keys(c.Namespaces)) {
		target := c.Namespaces[source]
		if source == "" || target == "" {
			return nil, errors.New("a namespace of the mapping has no name")
		}
		if other, taken := r.sources[target]; taken {
			return nil, fmt.Errorf("namespaces %q and %q are both mapped to %q; give each a target of its own", other, source,
				target)
		}
		r.sources[target] = source
	}
	for _, s := range c.Selected {
		if _, ok := r.TargetNamespace(s); !ok {
			return nil, fmt.Errorf(
				"namespace %q keeps its name, and %q is mapped to it; map %[1]q too, or give %[2]q another target", s, r.sources[s])
		}
	}
	for _, p := range c.Ignore {
		if steps := trimmed(p); len(steps) == 0 || steps[0].Every {
			return nil, fmt.Errorf("path %q: it is all of the object; begin with a name, as in spec or data", p)
		}
		for _, q := range identity {
			if q.Within(p) {
				return nil, fmt.Errorf("path %q: %s identifies the object in both clusters; name something else", p, q)
			}
		}
	}
	return r, nil
}

var identity = paths("apiVersion", "kind", "metadata.name", "metadata.namespace", `metadata.labels["`+Label+`"]`,
	`metadata.annotations["`+Origin+`"]`)

// TargetNamespace returns where objects of a source namespace are written. It is not ok if the namespace is not mapped
// and another one is mapped to its name: its objects are left out. The empty namespace is that of objects without one.
func (r *Rules) TargetNamespace(source string) (target string, ok bool) {
	if target, mapped := r.Namespaces[source]; mapped {
		return target, true
	}
	_, taken := r.sources[source]
	return source, !taken
}

// SourceNamespace is the inverse of [Rules.TargetNamespace]. It is not ok if no source namespace is written there.
func (r *Rules) SourceNamespace(target string) (source string, ok bool) {
	if source, mapped := r.sources[target]; mapped {
		return source, true
	}
	_, elsewhere := r.Namespaces[target]
	return target, !elsewhere
}

// Target returns the namespace and name in the target of an object of the source. The name differs for a Namespace
// only.
func (r *Rules) Target(resource schema.GroupResource, source types.NamespacedName) (types.NamespacedName, bool) {
	return mapped(resource, source, r.TargetNamespace)
}

// Source is the inverse of [Rules.Target].
func (r *Rules) Source(resource schema.GroupResource, target types.NamespacedName) (types.NamespacedName, bool) {
	return mapped(resource, target, r.SourceNamespace)
}

func mapped(resource schema.GroupResource, key types.NamespacedName, by func(string) (string, bool)) (
	_ types.NamespacedName, ok bool,
) {
	if resource == namespaces {
		key.Name, ok = by(key.Name)
	} else {
		key.Namespace, ok = by(key.Namespace)
	}
	return key, ok
}
