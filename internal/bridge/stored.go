// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"slices"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/membership"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// stored returns the streams of which the store has something, or will, in the order of their names; and of each
// namespace the version at which a selector took it last.
func (o *opener) stored() (all []membership.Stored, entered map[string]string) {
	entered = map[string]string{}
	add := func(at source.Stream, saved *checkpoint.Stream, left map[string]struct{}) {
		all = append(all, membership.Stored{
			Stream: at, Scope: saved.Fingerprint, Called: saved.Called, Retiring: saved.Retiring, Left: left,
		})
		if saved.Entered != "" && !ledger.After(entered[at.Namespace], saved.Entered) {
			entered[at.Namespace] = saved.Entered
		}
	}
	open, unopened := o.journal.All()
	for _, s := range open {
		s.Mu.Lock()
		saved := s.Saved
		s.Mu.Unlock()
		add(s.At(), &saved, s.Left)
	}
	for i := range unopened {
		has := &unopened[i]
		if at, ok := source.ParseName(has.Name); ok {
			at.Kind, at.Namespaced = has.Saved.Kind, has.Saved.Namespaced
			add(at, &has.Saved, has.Namespaces)
		}
	}
	slices.SortFunc(all, func(a, b membership.Stored) int { return cmp.Compare(a.Stream.Name(), b.Stream.Name()) })
	return all, entered
}
