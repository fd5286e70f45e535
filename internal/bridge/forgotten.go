// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"fmt"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// A stream that has ended is forgotten once the deletion of all that it had is in the log. A log that has lost these deletions has its objects alive, and so tells
// which streams there were; the store need not.

// reread returns the rows that the log has now, by the stream's name. Streams that the store has forgotten, and of which the log has objects alive, are stored
// ones again, with a kind and no position: whoever reads them finds them there, and deletes what does not exist any more. Settled reports whether nothing will be watched
// of a stream that is not newer than a deletion. Others is called with each message.
func (p *session) reread(ctx context.Context, log sink.Log, settled func(stream, version string) bool, others func(*sink.Stored)) (map[string]map[string]checkpoint.Row, error) {
	found, forgotten := map[string]map[string]checkpoint.Row{}, map[string]checkpoint.Stream{}
	offers := p.offered(ctx)
	err := log.Read(ctx, sink.Query{LastOfKey: !p.sharesSubjects()}, func(m *sink.Stored) error {
		p.recall(forgotten, m, offers)
		p.relearn(found, m, settled)
		others(m)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	for name, kept := range forgotten {
		switch {
		case len(found[name]) > 0:
			p.log.Info("the log has objects of a stream that had ended", "stream", name, "objects", len(found[name]))
		case kept == checkpoint.Stream{}:
			delete(p.state.Streams, name)
		default:
			p.state.Streams[name] = kept
		}
	}
	return found, nil
}

// recall makes the streams of an object that is alive in the log stored ones, if the store has forgotten them. Forgotten gets what is known of them.
func (p *session) recall(forgotten map[string]checkpoint.Stream, m *sink.Stored, offers *source.Offers) {
	st, err := encode.StateOf(m)
	if err != nil || st.Pipeline != p.name || st.UID == "" || st.Deleted {
		return
	}
	r, ok := encode.ResourceOf(st.Source, p.cfg.Identity.Cluster)
	if !ok {
		return
	}
	r.Kind, r.Namespaced = st.Kind, st.Namespace != ""
	for _, spec := range p.specs() {
		at, may := spec.mayHaveRead(r, st.Namespace)
		if !may || !spec.meant(r, offers) {
			continue
		}
		name, saved, known := p.storedAs(at)
		if !known {
			name = at.Name()
		}
		if _, again := forgotten[name]; !again {
			if saved.Kind != "" || p.holds(name, saved) {
				continue
			}
			forgotten[name] = saved
			if !known {
				p.mu.Lock()
				saved.History = p.firstHistory(at)
				p.mu.Unlock()
			}
			saved.Kind, saved.Namespaced, saved.Repair = r.Kind, r.Namespaced, p.furthest(r)
		}
		if st.History == saved.History && (saved.Repair == "" || after(st.ResourceVersion, saved.Repair)) {
			saved.Repair = st.ResourceVersion
		}
		p.state.Streams[name] = saved
	}
}

// firstAnswer is how long is waited for the first answer of an API server that a catalog asks.
const firstAnswer = 10 * time.Second

// offered returns what is served. It is nothing where no catalog asks for that, or none has an answer in time.
func (p *session) offered(ctx context.Context) *source.Offers {
	if p.cfg.Catalog == nil {
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

// meant reports whether a spec may name a resource, whose kind is known. What a short name means is known of what is served.
func (spec *StreamSpec) meant(r source.Resource, offers *source.Offers) bool {
	served := offers.Get(r.Group, r.Resource)
	if spec.Wildcard == nil {
		return means(spec.Resource, r) || served != nil && mayMean(spec.Resource, served)
	}
	if served == nil {
		served = &source.Served{Group: r.Group, Resource: r.Resource, Versions: []source.Resource{r}}
	}
	return spec.Wildcard.matches(served, &source.Offers{})
}

// mayHaveRead returns the stream in which a spec that names a resource would read an object of it in a namespace; false if it would not.
func (spec *StreamSpec) mayHaveRead(r source.Resource, namespace string) (source.Stream, bool) {
	at := spec.stream(r)
	if spec.NamespaceSelector != nil {
		at.Namespace = namespace
	}
	within := at.Namespace == "" || at.Namespace == namespace
	return at, within && (spec.NamespaceSelector == nil || namespace != "")
}

// furthest returns the newest version that the log may have had of a resource: one of those up to which its streams are known.
func (p *session) furthest(r source.Resource) (version string) {
	for name, saved := range p.state.Streams {
		at, ok := source.ParseName(name)
		if !ok || at.Group != r.Group || at.Resource.Resource != r.Resource {
			continue
		}
		for _, v := range []string{saved.Position, saved.Repair} {
			if v != "" && (version == "" || after(v, version)) {
				version = v
			}
		}
	}
	return version
}
