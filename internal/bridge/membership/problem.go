// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/source/catalog"
)

// ErrNotServed says that the API server does not serve what an entry names.
var ErrNotServed = errors.New(string(NotServed))

// Explain says what is wrong with an entry, and what to do. Undecided returns why it is not known what the API server
// serves; nil if it is.
func (p *Problem) Explain(entry *Spec, served []*catalog.Served, undecided func() error) error {
	names := strings.Join(p.Resources, ", ")
	switch p.Kind {
	case NotServed:
		if err := undecided(); err != nil {
			return fmt.Errorf("resource %q: %w", entry.Resource, err)
		}
		if names != "" {
			return fmt.Errorf("resource %q, which is %s: %s", entry.Resource, names, p.Kind)
		}
		return fmt.Errorf("resource %q: %w; kubectl api-resources lists what it serves", entry.Resource, ErrNotServed)
	case OtherVersion:
		return fmt.Errorf("resource %q: the API server does not serve that version, only %s: name another version, or none",
			entry.Resource, versionsOf(schema.ParseGroupResource(names), served))
	case ClusterScoped:
		return fmt.Errorf("resource %s is cluster-scoped and cannot be read in namespaces: "+
			"remove its namespaces or namespaceSelector", names)
	case Overlap:
		return fmt.Errorf("resource %s of entry %q and stream %s of another entry have objects in common, and an object "+
			"belongs to one stream of a pipeline: remove one, or give them different namespaces",
			p.Resources[0], entry.Resource, p.Resources[1])
	case Nothing:
		return fmt.Errorf("the wildcard selects nothing now, and what comes is read: %s",
			entry.Wildcard.Nothing(served, entry.Namespace != "" || entry.NamespaceSelector != nil))
	case Kept, Ambiguous:
		return fmt.Errorf("resource %q: %s: %s; name it with its group", entry.Resource, p.Kind, names)
	default:
		return errors.New(string(p.Kind))
	}
}

// versionsOf returns the versions in which a resource is served.
func versionsOf(r schema.GroupResource, served []*catalog.Served) string {
	var all []string
	i := slices.IndexFunc(served, func(s *catalog.Served) bool { return s.Group == r.Group && s.Resource == r.Resource })
	if i >= 0 {
		for _, r := range served[i].Versions {
			all = append(all, r.Version)
		}
	}
	return strings.Join(all, ", ")
}
