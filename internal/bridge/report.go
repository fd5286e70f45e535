// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"slices"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/membership"
)

// report logs what is new of the problems of a plan, and keeps for /readyz and the status what is not read, and why.
// The error is a [SpecError]: the first plan of a pipeline shows that it has to be configured differently.
func (r *reconciler) report(in *inputs, plan []membership.Assignment, problems []membership.Problem) error {
	told, unknown := map[string]struct{}{}, map[*StreamSpec]error{}
	for i := range problems {
		p := &problems[i]
		spec := r.specs[p.Spec]
		entry := spec.Selection()
		why := p.Explain(&entry, in.Served, r.cfg.Catalog.Problem)
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
			r.cfg.Log.Warn("an entry of the configuration has a problem", "resource", spec.Resource, "err", why)
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
