// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/previous"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// open makes the far side of a stream from what the store has of it.
func (p *session) open(spec *StreamSpec, at source.Stream) (*stream.Stream, error) {
	name := at.Name()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.streams {
		if o.Name == name {
			return nil, fmt.Errorf("BUG: stream %s is open", name)
		}
	}
	saved, known := p.state.Streams[name]
	s := stream.Open(p.env, spec, at, stream.Opening{
		Saved: saved, Known: known, Rows: p.state.Rows[name], Resyncs: !known && p.resyncNew && !spec.SkipSnapshot,
		Entered: p.entered(spec, at), Previous: p.previous(spec),
		Metrics: p.cfg.Metrics.Stream(p.name, name), Incidents: p.incidents.Stream(name),
	})
	if saved.Retiring {
		s.Left = inNamespaces(p.state.Rows[name])
	}
	delete(p.state.Rows, name)
	p.streams = append(p.streams, s)
	s.Begin()
	return s, nil
}

// previous returns the previous states of a stream's objects; nil where neither payload nor filter asks for them. The
// caller holds mu.
func (p *session) previous(spec *StreamSpec) *previous.Objects {
	data, objects := spec.Encoding.Payload.FromOld(), spec.Olds
	if !data && !objects {
		return nil
	}
	if p.cache.Load() == nil {
		p.cache.Store(previous.NewCache(p.budget, p.sayFull))
	}
	return p.cache.Load().Objects(data, objects)
}

// trimCache evicts previous states where the buffer has become smaller, or deleted objects leave less of it.
func (p *session) trimCache() {
	if c := p.cache.Load(); c != nil {
		c.Trim()
	}
}

// sayFull logs that previous states are evicted.
func (p *session) sayFull() {
	p.log.Info("the previous states of all objects do not fit into the buffer, of which they may take a quarter: the "+
		"next update of an object whose state was evicted is published whole, and filters that need the state publish it; "+
		"a larger buffer.maxBytes keeps more",
		"maxBytes", p.budget.Limit())
}

// entered returns at which version of its namespace a selector takes a stream; empty if none does, or it is not known.
func (p *session) entered(spec *StreamSpec, at source.Stream) string {
	if spec.NamespaceSelector == nil || p.cfg.Namespaces == nil {
		return ""
	}
	ns, ok, _ := p.cfg.Namespaces.Get(at.Namespace)
	if !ok {
		return ""
	}
	return ns.ResourceVersion
}
