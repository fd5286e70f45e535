// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"sync/atomic"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/delivery"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/journal"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/previous"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// opener opens, closes, and retires the streams of a session.
type opener struct {
	*lasting
	cfg     *Config
	journal *journal.Journal[*stream.Stream]
	env     *stream.Environment
	budget  *delivery.Budget
	// cache is nil until a stream needs it.
	cache atomic.Pointer[previous.Cache]
}

// newOpener returns the opener of a session. Its environment has no Session yet.
func newOpener(c *Config, l *lasting, to *delivery.Deliverer) *opener {
	budget := delivery.NewBudget(c.Buffer)
	return &opener{
		lasting: l, cfg: c, budget: budget,
		journal: journal.New[*stream.Stream](journal.Config{
			Store: c.Store, Identity: c.Identity, Log: c.Log, Epochs: &l.epochs, Offsets: to.Offsets,
		}),
		env: &stream.Environment{
			Pipeline: c.Name, Log: c.Log, Client: c.Client, Watches: c.Watches, Recovery: c.Recovery,
			Audit: c.Audit, ResyncRate: c.ResyncRate, PrimeTime: stream.PrimeTime, Checks: !c.Unfenced || c.Term != nil,
			Refresh: func() { c.Catalog.Refresh() }, Budget: budget, Delivery: to, Epochs: &l.epochs,
		},
	}
}

// open makes the far side of a stream from what the store has of it.
func (o *opener) open(spec *StreamSpec, at source.Stream) (*stream.Stream, error) {
	return o.journal.Open(at, o.opening(spec, at))
}

// openRetiring opens a stored stream whose objects are to be deleted in the log.
func (o *opener) openRetiring(spec *StreamSpec, at source.Stream, why string) (*stream.Stream, error) {
	s, err := o.journal.OpenRetiring(at, why, o.opening(spec, at))
	if err == nil {
		s.Status.Retires()
	}
	return s, err
}

// opening returns what opens a stream once it is known what is stored of it.
func (o *opener) opening(spec *StreamSpec, at source.Stream) func(journal.Stored) *stream.Stream {
	entered, previous, resyncs := o.entered(spec, at), o.previous(spec), o.journal.ResyncsNew() && !spec.SkipSnapshot
	return func(has journal.Stored) *stream.Stream {
		s := stream.Open(o.env, spec, at, stream.Opening{
			Saved: has.Saved, Known: has.Current, Rows: has.Rows, Resyncs: !has.Known && resyncs,
			Entered: entered, Previous: previous,
			Metrics: o.cfg.Metrics.Stream(o.cfg.Name, has.Name), Incidents: o.incidents.Stream(has.Name),
		})
		s.Left = has.Namespaces
		s.Begin()
		return s
	}
}

// previous returns the previous states of a stream's objects; nil where neither payload nor filter asks for them.
func (o *opener) previous(spec *StreamSpec) *previous.Objects {
	data, objects := spec.Encoding.Payload.FromOld(), spec.Olds
	if !data && !objects {
		return nil
	}
	if o.cache.Load() == nil {
		o.cache.CompareAndSwap(nil, previous.NewCache(o.budget, o.sayFull))
	}
	return o.cache.Load().Objects(data, objects)
}

// trimCache evicts previous states where the buffer has become smaller, or deleted objects leave less of it.
func (o *opener) trimCache() {
	if c := o.cache.Load(); c != nil {
		c.Trim()
	}
}

// sayFull logs that previous states are evicted.
func (o *opener) sayFull() {
	o.cfg.Log.Info("the previous states of all objects do not fit into the buffer, of which they may take a quarter: the "+
		"next update of an object whose state was evicted is published whole, and filters that need the state publish it; "+
		"a larger buffer.maxBytes keeps more",
		"maxBytes", o.budget.Limit())
}

// entered returns at which version of its namespace a selector takes a stream; empty if none does, or it is not known.
func (o *opener) entered(spec *StreamSpec, at source.Stream) string {
	if spec.NamespaceSelector == nil || o.cfg.Namespaces == nil {
		return ""
	}
	ns, ok, _ := o.cfg.Namespaces.Get(at.Namespace)
	if !ok {
		return ""
	}
	return ns.ResourceVersion
}
