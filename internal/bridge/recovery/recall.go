// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"slices"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// recallStreams makes the stream of a message a stored one if the store knows nothing of it. The stream that reads it
// publishes the end of what does not exist any more, behind a gap. An object that no entry selects, and that is alive
// in the log, gets a stream of its namespace, which then retires.
func (r *recovery) recallStreams(m *sink.Stored) {
	st, err := encode.StateOf(m)
	if err != nil || st.Pipeline != r.Pipeline {
		return
	}
	marker := st.Sequence == (sequence.Sequence{})
	resource, ok := encode.ResourceOf(st.Source, r.Identity.Cluster)
	if !ok {
		return
	}
	resource.Kind, resource.Namespaced = st.Kind, st.Namespace != ""
	// The marker's key does not tell.
	if served := r.Offers().Get(resource.Group, resource.Resource); marker && served != nil {
		resource.Namespaced = served.Versions[0].Namespaced
	}
	selected := marker
	for _, spec := range r.Specs {
		at, may := spec.MayHaveRead(resource, st.Namespace)
		if marker {
			at = spec.Of(resource)
			if spec.NamespaceSelector != nil {
				at.Namespace = encode.MarkerOf(m).Namespace
			}
			may = strings.Contains(st.ID, "."+at.Scope()+".")
		}
		if may && spec.MayMean(resource, r.Offers()) {
			selected = true
			r.recallStream(at, spec.Names())
		}
	}
	if !selected && !st.Deleted {
		r.recallStream(source.Stream{Resource: resource, Namespace: st.Namespace}, nil)
	}
}

// recallStream makes a stream a stored one, with what entries call its resource: a name that means another resource
// keeps that meaning.
func (r *recovery) recallStream(at source.Stream, called []string) {
	if _, known := r.stored.find(at); known {
		return
	}
	called = slices.DeleteFunc(slices.Clone(called), func(name string) bool { return r.stored.meansAnother(name, at) })
	r.stored.add(at.Name(), checkpoint.Stream{
		Kind: at.Kind, Namespaced: at.Namespaced || at.Namespace != "", Called: called, Fingerprint: at.Scope(),
	})
}
