// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// recall makes the stream of a message a stored one if the store knows nothing of it. The stream that reads it
// publishes the end of what does not exist any more, behind a gap. An object that no entry selects, and that is alive
// in the log, gets a stream of its namespace, which then retires.
func (r *recovery) recall(m *sink.Stored) {
	p := r.session
	st, err := encode.StateOf(m)
	if err != nil || st.Pipeline != p.name {
		return
	}
	marker := st.Sequence == (sequence.Sequence{})
	resource, ok := encode.ResourceOf(st.Source, p.cfg.Identity.Cluster)
	if !ok {
		return
	}
	resource.Kind, resource.Namespaced = st.Kind, st.Namespace != ""
	if served := r.offers().Get(resource.Group, resource.Resource); marker && served != nil { // the marker's key does not tell
		resource.Namespaced = served.Versions[0].Namespaced
	}
	selected := marker
	for _, spec := range p.specs() {
		at, may := spec.MayHaveRead(resource, st.Namespace)
		if marker {
			at = spec.Of(resource)
			if spec.NamespaceSelector != nil {
				at.Namespace = encode.MarkerOf(m).Namespace
			}
			may = strings.Contains(st.ID, "."+at.Scope()+".")
		}
		if may && spec.MayMean(resource, r.offers()) {
			selected = true
			r.recallStream(at, spec.Names())
		}
	}
	if !selected && !st.Deleted {
		r.recallStream(source.Stream{Resource: resource, Namespace: st.Namespace}, nil)
	}
}

// recallStream makes a stream a stored one, with what entries call its resource: a name that means another resource keeps
// that meaning.
func (r *recovery) recallStream(at source.Stream, called []string) {
	if _, known := r.stored.find(at); known {
		return
	}
	called = slices.DeleteFunc(slices.Clone(called), func(name string) bool { return r.stored.meansAnother(name, at) })
	r.stored.add(at.Name(), checkpoint.Stream{
		Kind: at.Kind, Namespaced: at.Namespaced || at.Namespace != "", Called: called, Fingerprint: at.Scope(),
	})
}

// firstAnswer is how long is waited for the first answer of an API server that a catalog asks.
const firstAnswer = 10 * time.Second

// offered returns what is served. It is nothing where no catalog asks for that, or none has an answer in time.
func (p *session) offered(ctx context.Context) *source.Offers {
	if p.cfg.Catalog == nil { // in tests
		return &source.Offers{}
	}
	offers, changed := p.cfg.Catalog.Now()
	if offers != nil {
		return offers
	}
	select {
	case <-changed:
		offers, _ = p.cfg.Catalog.Now()
		return offers
	case <-time.After(firstAnswer):
	case <-ctx.Done():
	}
	return &source.Offers{}
}
