// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/membership"
	"github.com/kube-eventbridge/kube-eventbridge/source/catalog"
)

// report logs what is new of the problems of a plan, and keeps for /readyz and the status what is not read, and why.
// The error is a [SpecError]: the first plan of a pipeline shows that it has to be configured differently.
func (r *reconciler) report(in *inputs, plan []membership.Assignment, problems []membership.Problem) error {
	told, unknown := map[string]struct{}{}, map[*StreamSpec]error{}
	for i := range problems {
		p := &problems[i]
		spec := r.specs[p.Spec]
		why := r.problem(in, spec, p)
		key := fmt.Sprintf("%p %v", spec, why)
		told[key] = struct{}{}
		_, before := r.told[key]
		switch p.Kind {
		case membership.Overlap, membership.ClusterScoped:
			if !r.planned {
				return &SpecError{why}
			}
			unknown[spec] = why
		case membership.NotServed, membership.OtherVersion:
			unknown[spec] = why
		case membership.Ambiguous, membership.Kept, membership.Nothing: // it is read as far as it exists
		}
		if !before {
			r.cfg.Log.Warn(headline(p.Kind), "resource", spec.Resource, "err", why)
		}
	}
	r.told = told
	r.planned = r.planned || in.Known
	for _, spec := range r.specs {
		if err := r.waits(in, spec); err != nil {
			unknown[spec] = err
		}
	}
	r.begun(in, plan, unknown)
	return nil
}

// headline says in short what a problem is.
func headline(kind membership.ProblemKind) string {
	switch kind {
	case membership.NotServed:
		return "a resource of the configuration is not served"
	case membership.OtherVersion:
		return "a resource of the configuration is not served in the version that is named"
	case membership.Ambiguous, membership.Kept:
		return "a name in the configuration may mean several resources"
	case membership.ClusterScoped:
		return "the configuration names namespaces of a cluster-scoped resource"
	case membership.Overlap:
		return "two entries of the configuration have objects in common"
	case membership.Nothing:
		return "a wildcard of the configuration selects nothing"
	default:
		return string(kind)
	}
}

// ErrNotServed says that the API server does not serve what an entry names.
var ErrNotServed = errors.New(string(membership.NotServed))

// problem says what is wrong with an entry.
func (r *reconciler) problem(in *inputs, spec *StreamSpec, p *membership.Problem) error {
	names := strings.Join(p.Resources, ", ")
	switch p.Kind {
	case membership.NotServed:
		if err := r.cfg.Catalog.Problem(); err != nil {
			return fmt.Errorf("resource %q: %w", spec.Resource, err)
		}
		if names != "" {
			return fmt.Errorf("resource %q, which is %s: %s", spec.Resource, names, p.Kind)
		}
		return fmt.Errorf("resource %q: %w; kubectl api-resources lists what it serves", spec.Resource, ErrNotServed)
	case membership.OtherVersion:
		gr := schema.ParseGroupResource(names)
		return fmt.Errorf("resource %q: the API server does not serve that version, only %s: name another version, or none",
			spec.Resource, versionsOf(in.served.Get(gr.Group, gr.Resource)))
	case membership.ClusterScoped:
		return fmt.Errorf("resource %s is cluster-scoped and cannot be read in namespaces: "+
			"remove its namespaces or namespaceSelector", names)
	case membership.Overlap:
		return fmt.Errorf("resource %s of entry %q and stream %s of another entry have objects in common, and an object "+
			"belongs to one stream of a pipeline: remove one, or give them different namespaces",
			p.Resources[0], spec.Resource, p.Resources[1])
	case membership.Nothing:
		return fmt.Errorf("the wildcard selects nothing now, and what comes is read: %s",
			spec.Wildcard.Nothing(in.Served, spec.Namespace != "" || spec.NamespaceSelector != nil))
	case membership.Kept, membership.Ambiguous:
		return fmt.Errorf("resource %q: %s: %s; name it with its group", spec.Resource, p.Kind, names)
	default:
		return errors.New(string(p.Kind))
	}
}

func versionsOf(s *catalog.Served) string {
	var all []string
	for _, r := range s.Versions {
		all = append(all, r.Version)
	}
	return strings.Join(all, ", ")
}

// waits returns why it is not known what an entry selects; nil if it is, or may be soon.
func (r *reconciler) waits(in *inputs, spec *StreamSpec) error {
	if in.Known {
		if spec.NamespaceSelector != nil && in.noNamespaces != nil {
			return fmt.Errorf("namespaces: %w", in.noNamespaces)
		}
		return nil
	}
	if err := r.cfg.Catalog.Problem(); err != nil {
		return fmt.Errorf("resource %q: %w", spec.Resource, err)
	}
	return nil
}

// begun takes note of the entries of which all streams run that there are.
func (r *reconciler) begun(in *inputs, plan []membership.Assignment, unknown map[*StreamSpec]error) {
	selected, waits := map[*StreamSpec]int{}, map[*StreamSpec]bool{}
	for i := range plan {
		a := &plan[i]
		if a.Action != membership.Run {
			continue
		}
		spec := r.specs[a.Spec]
		selected[spec]++
		if one := r.runs[a.Stream.Name()]; one == nil || one.stopping {
			waits[spec] = true
		}
	}
	for _, one := range r.runs {
		one.Status.Instead(unknown[one.Spec])
	}
	unbegun := r.entries.observe(selected, unknown, func(spec *StreamSpec) bool {
		return in.Known && !waits[spec] && unknown[spec] == nil
	})
	if unbegun == 0 && !mayGrow(r.specs) {
		r.journal.EndResyncsNew()
	}
}

// mayGrow reports whether a stream of one of the entries may begin that was there before the checkpoint was lost.
func mayGrow(specs []*StreamSpec) bool {
	return slices.ContainsFunc(specs, func(spec *StreamSpec) bool {
		return spec.Wildcard != nil || spec.NamespaceSelector != nil
	})
}
