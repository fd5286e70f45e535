// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/handover"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/membership"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/watching"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/catalog"
)

const (
	// lastWords is how long a stream of a namespace that is gone waits for its watch to show what was deleted with it.
	lastWords = 10 * time.Second
)

// reconciler has those streams of a session run that [membership.Plan] says. One goroutine compares the plan with what
// runs whenever an input of it changes, and begins what is to be done in goroutines of their own: it waits for no
// broker. Whatever is cut short is found by the next plan in what is stored.
type reconciler struct {
	*session
	group *errgroup.Group
	// events are called by the reconciler's goroutine.
	events chan func()

	// specs are the entries of the last plan, and assignments what it says of each stream.
	specs       []*StreamSpec
	assignments map[string]*membership.Assignment
	// runs are the streams that are read, by name. Of the streams in busy, rows are moved or ends are published; then
	// the function stops that as far as it has not begun.
	runs map[string]*run
	busy map[string]context.CancelFunc
	// ran are the entries as which streams have run that do not now.
	ran map[string]*StreamSpec
	// told are the problems of the last plan, which are logged.
	told map[string]struct{}
	gone absences
	// unserved is when entries were first seen that name nothing that is served, and asks when the API server is asked
	// for them again.
	unserved, asks time.Time
	turning        *turning
}

// run is a stream that is read.
type run struct {
	*stream.Stream
	// stop is closed when the stream is to end, and stopping true then.
	stop     chan struct{}
	stopping bool
	// left is when its namespace was first seen to be gone.
	left time.Time
}

// inputs are what a plan is made of.
type inputs struct {
	membership.Offers
	namespaces membership.Namespaces
	stored     []membership.Stored
	// served is nil before the first answer of the API server.
	served *catalog.Offers
	// noNamespaces says why the namespaces are not known.
	noNamespaces error
	// changed are closed when the inputs change.
	changed [2]<-chan struct{}
}

func newReconciler(p *session, group *errgroup.Group) *reconciler {
	return &reconciler{
		session: p, group: group, events: make(chan func()), runs: map[string]*run{}, busy: map[string]context.CancelFunc{},
		ran: map[string]*StreamSpec{}, gone: absences{gone: map[schema.GroupResource]struct{}{}},
	}
}

// reconcile works until ctx ends. The error is permanent, a [SpecError], or errRespecified.
func (r *reconciler) reconcile(ctx context.Context) error {
	for {
		in := r.look()
		later, err := r.carryOut(ctx, &in)
		if err != nil || ctx.Err() != nil {
			return stream.Ended(err)
		}
		select {
		case <-in.changed[0]:
		case <-in.changed[1]:
		case <-time.After(later):
		case f := <-r.events:
			f()
			r.hear()
		case t := <-r.turns:
			r.applyConfig(t)
		case <-ctx.Done():
			return nil
		}
	}
}

// tell has the reconciler's goroutine call f.
func (r *reconciler) tell(ctx context.Context, f func()) {
	select {
	case r.events <- f:
	case <-ctx.Done():
	}
}

// hear calls what else waits to be called: one plan is enough for all.
func (r *reconciler) hear() {
	for {
		select {
		case f := <-r.events:
			f()
		default:
			return
		}
	}
}

// look returns the inputs as they are now.
func (r *reconciler) look() (in inputs) {
	in.served, in.changed[0] = r.cfg.Catalog.Now()
	if in.served != nil {
		in.Offers = membership.Offers{Known: true, Served: in.served.All(), Gone: r.gone.among(in.served)}
	}
	var entered map[string]string
	in.stored, entered = r.stored()
	r.specs = r.entries.all()
	if slices.ContainsFunc(r.specs, func(s *StreamSpec) bool { return s.NamespaceSelector != nil }) {
		in.namespaces, in.changed[1], in.noNamespaces = namespaces(r.cfg.Namespaces, entered)
	}
	return in
}

// namespaces returns the namespaces. Entered has the versions at which selectors took them: an API server that lags
// behind, as after a restart, may tell an older state. Then nothing begins in the namespace, and nothing ends, as in
// one that is being deleted.
func namespaces(
	of *catalog.Namespaces, entered map[string]string,
) (membership.Namespaces, <-chan struct{}, error) {
	all, changed, err := of.Now()
	if err != nil {
		return membership.Namespaces{}, changed, err
	}
	for name, version := range entered {
		ns, ok := all[name]
		if ok && ledger.After(version, ns.ResourceVersion) && of.Precedes(version) {
			ns.Terminating = true
			all[name] = ns
		}
	}
	return membership.Namespaces{Known: true, All: all}, changed, nil
}

// carryOut begins what has to be done for the plan: first streams stop, then rows move, then streams start, then the
// rest retires. It returns when to look again where no input changes.
func (r *reconciler) carryOut(ctx context.Context, in *inputs) (later time.Duration, err error) {
	entries := make([]membership.Spec, len(r.specs))
	for i, spec := range r.specs {
		entries[i] = spec.Selection()
	}
	plan, problems := membership.Plan(entries, in.Offers, in.namespaces, in.stored)
	r.assignments = map[string]*membership.Assignment{}
	for i := range plan {
		r.assignments[plan[i].Stream.Name()] = &plan[i]
	}
	now := time.Now()
	later = min(r.askGone(ctx, in, now), r.askUnserved(in, problems, now), r.stop(in, now), r.turning.due(now))
	if err := r.overdue(ctx, now); err != nil {
		return 0, err
	}
	handed := map[string]bool{} // what other streams take over, or are about to
	for _, g := range r.handovers(plan, handed) {
		r.handOver(ctx, g)
	}
	for i := range plan {
		switch a := &plan[i]; {
		case a.Action == membership.Run && !moves(a) && !r.occupied(a.Stream.Name()):
			if err := r.start(ctx, a); err != nil {
				return 0, err
			}
		case a.Action == membership.Retire && !handed[a.Stream.Name()] && !r.occupied(a.Stream.Name()):
			r.retireStored(ctx, in, a)
		}
	}
	r.turned()
	return later, r.report(in, plan, problems)
}

// occupied reports whether something is under way for a stream.
func (r *reconciler) occupied(name string) bool {
	_, busy := r.busy[name]
	return busy || r.runs[name] != nil
}

// stop stops the streams that are not to go on as they run, and what is under way for others that are to do something
// else. It returns when to look again.
func (r *reconciler) stop(in *inputs, now time.Time) (later time.Duration) {
	later = watching.LongestDoubt
	for _, run := range r.runs {
		stays, again := r.stays(run, in, now)
		if again {
			later = watching.FirstDoubt
		}
		if !stays && !run.stopping {
			run.stopping = true
			close(run.stop)
		}
	}
	for name, cancel := range r.busy {
		if a := r.assignments[name]; a != nil && a.Action != membership.Retire {
			cancel()
		}
	}
	return later
}

// stays reports whether a stream goes on as it runs, and whether that has to be looked at again.
func (r *reconciler) stays(run *run, in *inputs, now time.Time) (stays, again bool) {
	a := r.assignments[run.Name]
	if a == nil {
		return false, false
	}
	if a.Action == membership.Run {
		return a.Stream == run.At() && r.specs[a.Spec] == run.Spec && a.Same && len(a.From) == 1, false
	}
	if a.Action == membership.Detach { // the API server may be about to serve it again, and to read it will tell
		return slices.Contains(r.specs, run.Spec), false
	}
	_, exists := in.namespaces.All[run.Namespace]
	if a.Why != membership.Left || exists || run.Ledger.Len() == 0 {
		return false, false
	}
	if run.left.IsZero() {
		run.left = now
	}
	waits := now.Sub(run.left) < lastWords
	return waits, waits
}

// moves reports whether rows or positions have to be moved before a stream can start.
func moves(a *membership.Assignment) bool {
	return len(a.From) > 0 && (!a.Same || len(a.From) > 1 || a.From[0] != a.Stream.Name())
}

// start has a stream run.
func (r *reconciler) start(ctx context.Context, a *membership.Assignment) error {
	s, err := r.open(r.specs[a.Spec], a.Stream)
	if err != nil {
		return err
	}
	s.Call(a.Called)
	one := &run{Stream: s, stop: make(chan struct{})}
	r.runs[s.Name] = one
	delete(r.ran, s.Name)
	r.group.Go(func() error { return r.read(ctx, one) })
	return nil
}

// read reads a stream until ctx ends, or the stream is stopped: then all that was read is in the log, and committed,
// and the stream is only stored. The error is permanent.
func (r *reconciler) read(ctx context.Context, one *run) error {
	s := one.Stream
	if err := s.Read(ctx, one.stop); err != nil || ctx.Err() != nil {
		return stream.Ended(err)
	}
	if err := s.Tracker.Await(ctx); err != nil {
		return stream.Ended(err)
	}
	if err := r.journal.Save(ctx); err != nil { // no mark may pass what the stream has published
		return stream.Ended(err)
	}
	r.close(s)
	r.tell(ctx, func() {
		delete(r.runs, s.Name)
		r.ran[s.Name] = s.Spec
	})
	return nil
}

// do does something in a goroutine of its own for streams, of which nothing else is done meanwhile. Its second context
// ends when the plan says something else of one of them. The error is permanent.
func (r *reconciler) do(ctx context.Context, streams []string, something func(ctx, asked context.Context) error) {
	asked, cancel := context.WithCancel(ctx)
	for _, name := range streams {
		r.busy[name] = cancel
	}
	r.group.Go(func() error {
		defer cancel()
		if err := something(ctx, asked); err != nil {
			return stream.Ended(err)
		}
		r.tell(ctx, func() {
			for _, name := range streams {
				delete(r.busy, name)
			}
		})
		return nil
	})
}

// handovers returns those that can be made now: nothing of what they concern is read any more. What is handed over, or
// is to be, is added to handed.
func (r *reconciler) handovers(plan []membership.Assignment, handed map[string]bool) (now []handover.Handover) {
	var all []handover.Handover
	for i := range plan {
		a := &plan[i]
		if a.Action != membership.Run || !moves(a) {
			continue
		}
		one := handover.Handover{To: []*membership.Assignment{a}, From: a.From}
		for _, name := range a.From {
			handed[name] = true
		}
		all = slices.DeleteFunc(all, func(o handover.Handover) bool {
			shared := slices.ContainsFunc(o.From, func(name string) bool { return slices.Contains(one.From, name) })
			if shared { // what one stream has is shared out in one commit
				one.To, one.From = append(one.To, o.To...), append(slices.Clone(one.From), o.From...)
			}
			return shared
		})
		all = append(all, one)
	}
	for _, h := range all {
		slices.Sort(h.From)
		h.From = slices.Compact(h.From)
		for _, name := range h.From {
			if cancel := r.busy[name]; cancel != nil {
				cancel() // a stream that retires may wait for a broker that refuses an end
			}
		}
		waits := slices.ContainsFunc(h.From, r.occupied) ||
			slices.ContainsFunc(h.To, func(a *membership.Assignment) bool { return r.occupied(a.Stream.Name()) })
		if !waits {
			now = append(now, h)
		}
	}
	return now
}

// handOver makes a handover in the background.
func (r *reconciler) handOver(ctx context.Context, h handover.Handover) {
	names := slices.Clone(h.From)
	for _, a := range h.To {
		names = append(names, a.Stream.Name())
	}
	r.do(ctx, names, func(ctx, _ context.Context) error { return r.journal.Move(ctx, h) })
}

// retireStored ends in the background what is stored of a stream that does not run.
func (r *reconciler) retireStored(ctx context.Context, in *inputs, a *membership.Assignment) {
	at, why := a.Stream, a.Why
	_, exists := in.namespaces.All[at.Namespace]
	gone := why == membership.Gone || why == membership.Left && in.namespaces.Known && !exists
	spec := r.speaksFor(at.Name())
	r.do(ctx, []string{at.Name()}, func(ctx, asked context.Context) error {
		reason := always(source.ReasonRelist)
		if !gone {
			var err error
			if reason, err = r.reasons(asked, at); err != nil {
				return stream.Ended(ctx.Err()) // there is another plan
			}
		}
		s, err := r.openRetiring(spec, at, string(why))
		if err != nil {
			return err
		}
		return r.retire(ctx, asked, s, reason, string(why))
	})
}

// speaksFor returns the entry as which the ends of a stream are published: the one that it has run as, else any, which
// filters nothing.
func (r *reconciler) speaksFor(name string) *StreamSpec {
	if spec := r.ran[name]; spec != nil {
		return spec
	}
	any := StreamSpec{}
	if specs := append(r.specs, pointers(r.cfg.Streams)...); len(specs) > 0 {
		any = *specs[0]
	}
	any.Filter, any.Olds, any.Latest, any.Wildcard, any.NamespaceSelector = nil, false, false, nil, nil
	return &any
}
