// SPDX-License-Identifier: Apache-2.0

// Package membership decides which streams of a pipeline run.
//
// [Plan] is a pure function of what the configuration asks for, what the API server serves, which namespaces there
// are, and which streams are stored. A reconciler calls it whenever one of these changes, and carries out the
// difference to what runs: first it stops streams, then it moves rows, then it starts streams, then it retires what
// is left.
package membership

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/catalog"
)

// Spec is one entry of the configuration in one scope.
type Spec struct {
	// Resource is what the user calls it; empty where Wildcard is set.
	Resource string
	Wildcard *Wildcard
	// Namespace is empty for all namespaces. NamespaceSelector, if not nil, selects namespaces; Namespace is empty
	// then.
	Namespace                    string
	NamespaceSelector            labels.Selector
	LabelSelector, FieldSelector string
}

// in returns the stream of the entry in a namespace, without its resource.
func (s *Spec) in(namespace string) source.Stream {
	return source.Stream{Namespace: namespace, LabelSelector: s.LabelSelector, FieldSelector: s.FieldSelector}
}

// Offers are what the API server serves.
type Offers struct {
	// Known is false before the first answer.
	Known  bool
	Served []*catalog.Served
	// Gone are resources that certainly do not exist any more. What is in neither may come back.
	Gone []schema.GroupResource
}

// Namespaces are those of the cluster.
type Namespaces struct {
	Known bool
	All   map[string]catalog.Namespace
}

// Stored is a stream of which the checkpoint has something. Its selectors are not known.
type Stored struct {
	source.Stream
	// Scope is [source.Stream.Scope] with the selectors of the objects that are stored.
	Scope string
	// Called is what the configuration called the resource; empty where only a wildcard selected it.
	Called []string
	// Retiring: its objects are being deleted in the log, so that a new list is needed to go on. Left are then the
	// namespaces of the objects that are not deleted yet, with an empty one for cluster-scoped objects.
	Retiring bool
	Left     map[string]struct{}
}

// Action is what is to be done for a stream.
type Action uint8

// The actions.
const (
	// Run: the stream runs as the entry says. It takes over rows and positions of the stored streams in From.
	Run Action = iota + 1
	// Retire: everything that the log has of the stream, and that no running stream has taken over, is deleted in
	// the log. Then the stream is forgotten.
	Retire
	// Detach: the stream does not run now, and what is stored of it stays.
	Detach
)

// Why a stream retires or is detached.
type Why string

// The reasons.
const (
	Gone       Why = "the resource does not exist any more"
	Deselected Why = "the configuration does not select it"
	Left       Why = "its namespace is not selected, or does not exist"
	Unknown    Why = "it is not known what the API server serves"
	Absent     Why = "the API server does not serve it now"
	Version    Why = "the API server does not serve the version that is named"
)

// Assignment is the answer for one stream.
type Assignment struct {
	Stream source.Stream
	Action Action
	// Spec is the index of the entry that the stream runs as; -1 if it does not.
	Spec int
	// From are names of stored streams that have objects of the stream. Same: together they have selected exactly
	// its objects, so that it takes no new number.
	From []string
	Same bool
	// Called are the names of the resource in the entries that select the stream or a part of it.
	Called []string
	Why    Why // empty where Action is Run
}

// Problem is what a user has to know of an entry.
type Problem struct {
	Spec int
	Kind ProblemKind
	// Resources are the full names that matter.
	Resources []string
}

// ProblemKind is the kind of a [Problem].
type ProblemKind string

// The problems.
const (
	NotServed     ProblemKind = "the API server does not serve it"
	Ambiguous     ProblemKind = "the name may mean several resources, and the first one is read"
	Kept          ProblemKind = "the name may mean several resources, and keeps the meaning that it had"
	OtherVersion  ProblemKind = "the version that is named is not served"
	ClusterScoped ProblemKind = "the resource is cluster-scoped, and the entry names namespaces"
	Overlap       ProblemKind = "another entry reads objects of it"
	Nothing       ProblemKind = "the wildcard selects nothing"
)

// Plan returns what is to be done for each stream that is to run or is stored, and the problems, both in a fixed
// order. No two streams that run have objects in common. A stored stream that goes on under its name is only in the
// assignment that runs it.
func Plan(specs []Spec, offers Offers, namespaces Namespaces, stored []Stored) ([]Assignment, []Problem) {
	p := &plan{
		specs: specs, offers: offers, namespaces: namespaces, stored: stored, offered: byResource(offers.Served),
		of: map[schema.GroupResource]*byNamespace[*Stored]{}, runs: map[schema.GroupResource]*byNamespace[int]{},
		assigned: map[string]bool{}, handed: map[string]bool{}, waited: map[wait]bool{},
	}
	for i := range stored {
		entry(p.of, groupResource(stored[i].Resource)).add(stored[i].Namespace, &stored[i])
	}
	if offers.Known {
		for _, i := range p.order() {
			p.spec(i)
		}
	}
	for i := range stored {
		p.rest(&stored[i])
	}
	slices.SortStableFunc(p.problems, func(a, b Problem) int { return cmp.Compare(a.Spec, b.Spec) })
	return sorted(p.all), p.problems
}

// sorted returns assignments by action and name. Names are made once.
func sorted(all []Assignment) []Assignment {
	type named struct {
		name string
		at   int
	}
	order := make([]named, len(all))
	for i := range all {
		order[i] = named{all[i].Stream.Name(), i}
	}
	slices.SortFunc(order, func(a, b named) int {
		return cmp.Or(cmp.Compare(all[a.at].Action, all[b.at].Action), strings.Compare(a.name, b.name))
	})
	out := make([]Assignment, len(all))
	for i := range order {
		out[i] = all[order[i].at]
	}
	return out
}

type plan struct {
	specs      []Spec
	offers     Offers
	namespaces Namespaces
	stored     []Stored

	all      []Assignment
	problems []Problem
	// of are the stored streams of a resource, and runs the indices in all of those that run, by canonical resource.
	of   map[schema.GroupResource]*byNamespace[*Stored]
	runs map[schema.GroupResource]*byNamespace[int]
	// assigned are the names of the streams that run, and handed of the stored ones that they take over.
	assigned, handed map[string]bool
	// waits are the resources and namespaces that an entry may select, and that cannot be told now, each once.
	waits  []wait
	waited map[wait]bool
	// offered are the resources that are served.
	offered map[schema.GroupResource]*catalog.Served
}

// wait is a part of an entry that cannot be decided. Namespace is empty for all, Resource for all that the entry
// names.
type wait struct {
	resource  schema.GroupResource
	namespace string
	why       Why
}

// order returns the entries in the order in which they own resources: names, then wildcards of a group, then those
// of all.
func (p *plan) order() []int {
	rank := func(i int) int {
		switch w := p.specs[i].Wildcard; {
		case w == nil:
			return 0
		case !w.All:
			return 1
		default:
			return 2
		}
	}
	all := make([]int, len(p.specs))
	for i := range all {
		all[i] = i
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(rank(a), rank(b)) })
	return all
}

func (p *plan) wait(r schema.GroupResource, namespace string, why Why) {
	w := wait{r, namespace, why}
	if !p.waited[w] {
		p.waited[w] = true
		p.waits = append(p.waits, w)
	}
}

func (p *plan) problem(spec int, kind ProblemKind, resources ...string) {
	p.problems = append(p.problems, Problem{spec, kind, resources})
}

func (p *plan) spec(i int) {
	if p.specs[i].Wildcard != nil {
		p.wildcard(i)
		return
	}
	s, waits := p.meaning(i)
	if waits != nil {
		p.wait(*waits, p.specs[i].Namespace, Absent)
	}
	if s != nil {
		p.resource(i, s)
	}
}

// meaning returns what a name means: what it meant before while that is served, or may come back; waits is that. Of
// several resources that fit as well, one that the pipeline has read under another name goes first.
func (p *plan) meaning(i int) (is *catalog.Served, waits *schema.GroupResource) {
	name := p.specs[i].Resource
	var may []*catalog.Served
	for _, s := range p.offers.Served {
		if MayMean(name, s) && !p.shown(s) {
			may = append(may, s)
		}
	}
	slices.SortStableFunc(may, func(a, b *catalog.Served) int {
		return cmp.Or(cmp.Compare(fit(name, a), fit(name, b)), cmp.Compare(p.strange(a), p.strange(b)))
	})
	unclear := len(may) > 1 && fit(name, may[0]) == fit(name, may[1])
	before, bound := p.binding(name)
	switch {
	case bound && p.served(before) == nil:
		p.problem(i, NotServed, before.String())
		return nil, &before
	case bound:
		is = p.served(before)
		if unclear || len(may) > 0 && may[0] != is {
			p.problem(i, Kept, append([]string{fullName(is)}, fullNames(may, is)...)...)
		}
		return is, nil
	case unclear:
		p.problem(i, Ambiguous, fullNames(may, nil)...)
	}
	if len(may) == 0 {
		p.problem(i, NotServed)
		return nil, p.absent(name)
	}
	return may[0], nil
}

// strange is 0 for a resource that a stored stream has, and 1 for others.
func (p *plan) strange(s *catalog.Served) int {
	if slices.ContainsFunc(p.stored, func(at Stored) bool { return p.served(groupResource(at.Resource)) == s }) {
		return 0
	}
	return 1
}

// absent returns a resource that a stored stream has, that may come back, and that a name may mean then. Only the
// plural is known of it.
func (p *plan) absent(name string) *schema.GroupResource {
	for i := range p.stored {
		r := groupResource(p.stored[i].Resource)
		lost := &catalog.Served{Group: r.Group, Resource: r.Resource}
		if p.served(r) == nil && !slices.Contains(p.offers.Gone, r) && MayMean(name, lost) {
			return &r
		}
	}
	return nil
}

// binding returns the resource that a stored stream has for a name: one that is served, else one that may come back.
func (p *plan) binding(name string) (is schema.GroupResource, bound bool) {
	for i := range p.stored {
		at := &p.stored[i]
		if !slices.Contains(at.Called, name) {
			continue
		}
		switch r := groupResource(at.Resource); {
		case p.served(r) != nil:
			return r, true
		case !slices.Contains(p.offers.Gone, r):
			is, bound = r, true
		}
	}
	return is, bound
}

// fit orders what a name may mean: a plural before other names, a group in full before one that is cut short.
func fit(name string, s *catalog.Served) int {
	full, short := schema.ParseResourceArg(name)
	switch {
	case full != nil && full.Resource == s.Resource && full.Group == s.Group:
		return 0
	case short.Resource == s.Resource && short.Group == s.Group && short.Group != "":
		return 1
	case short.Resource == s.Resource && short.Group == "" && s.Group == "":
		return 2 // as kubectl does, the core group comes first
	case short.Resource == s.Resource:
		return 3
	default:
		return 4
	}
}

// shown reports whether another resource that is served shows the same objects, and is the one that is read.
func (p *plan) shown(s *catalog.Served) bool {
	own := schema.GroupResource{Group: s.Group, Resource: s.Resource}
	first := canonical(own)
	return first != own && p.served(first) != nil
}

func byResource(served []*catalog.Served) map[schema.GroupResource]*catalog.Served {
	all := make(map[schema.GroupResource]*catalog.Served, len(served))
	for _, s := range served {
		all[schema.GroupResource{Group: s.Group, Resource: s.Resource}] = s
	}
	return all
}

func (p *plan) served(r schema.GroupResource) *catalog.Served { return p.offered[r] }

func (p *plan) wildcard(i int) {
	spec, any := &p.specs[i], false
	for _, s := range p.offers.Served {
		if !spec.Wildcard.Names(s) || p.shown(s) && spec.Wildcard.All {
			continue
		}
		if namespaced := s.Versions[0].Namespaced; namespaced || spec.Namespace == "" && spec.NamespaceSelector == nil {
			any = true
			p.resource(i, s)
		}
	}
	for j := range p.stored {
		at := &p.stored[j]
		r := groupResource(at.Resource)
		lost := &catalog.Served{Group: r.Group, Resource: r.Resource, Versions: []source.Resource{at.Resource}}
		if p.served(r) == nil && !slices.Contains(p.offers.Gone, r) && spec.Wildcard.Names(lost) {
			p.wait(r, spec.Namespace, Absent)
		}
	}
	if !any {
		p.problem(i, Nothing)
	}
}

// resource has an entry read a resource in its scope.
func (p *plan) resource(i int, s *catalog.Served) {
	spec, gr := &p.specs[i], schema.GroupResource{Group: s.Group, Resource: s.Resource}
	if !s.Versions[0].Namespaced && (spec.Namespace != "" || spec.NamespaceSelector != nil) {
		p.problem(i, ClusterScoped, fullName(s))
		return
	}
	r, ok := p.version(spec, s)
	if !ok {
		p.problem(i, OtherVersion, fullName(s))
		p.wait(gr, spec.Namespace, Version)
		return
	}
	if spec.NamespaceSelector == nil {
		p.run(i, r, spec.Namespace)
		return
	}
	if !p.namespaces.Known {
		p.wait(gr, "", Unknown)
		return
	}
	for _, name := range p.selected(spec, gr) {
		p.run(i, r, name)
	}
}

// version returns in which version a resource is read: the one that is named, else the one that was read before
// while it is served, else the one that the API server prefers.
func (p *plan) version(spec *Spec, s *catalog.Served) (source.Resource, bool) {
	if v := pinned(spec.Resource, s); v != "" && spec.Wildcard == nil {
		return s.In(v)
	}
	for _, at := range p.of[schema.GroupResource{Group: s.Group, Resource: s.Resource}].every() {
		if r, ok := s.In(at.Version); ok {
			return r, true
		}
	}
	return s.Versions[0], true
}

// selected returns the namespaces of a selector, and those that are being deleted and have something in the log:
// the watch shows what is deleted with them.
func (p *plan) selected(spec *Spec, r schema.GroupResource) (names []string) {
	for name, ns := range p.namespaces.All {
		has := func() bool {
			return slices.ContainsFunc(p.of[r].meeting(name), func(at *Stored) bool {
				return at.Namespace == name && !at.Retiring && at.Scope == spec.in(name).Scope()
			})
		}
		if ns.Terminating && has() || !ns.Terminating && spec.NamespaceSelector.Matches(ns.Labels) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (p *plan) run(i int, r source.Resource, namespace string) {
	spec := &p.specs[i]
	at := spec.in(namespace)
	at.Resource = r
	first := canonical(groupResource(r))
	if met := p.runs[first].meeting(namespace); len(met) > 0 {
		o := &p.all[met[0]]
		if spec.Wildcard == nil && p.specs[o.Spec].Wildcard == nil {
			p.problem(i, Overlap, r.String(), o.Stream.Name())
			o.call(spec.Resource)
		}
		return
	}
	a := Assignment{Stream: at, Action: Run, Spec: i}
	a.call(spec.Resource)
	a.From, a.Same = p.from(at)
	entry(p.runs, first).add(namespace, len(p.all))
	p.assigned[at.Name()] = true
	for _, name := range a.From {
		p.handed[name] = true
	}
	p.all = append(p.all, a)
}

// call adds a name, which is empty for a wildcard.
func (a *Assignment) call(name string) {
	if name != "" && !slices.Contains(a.Called, name) {
		a.Called = append(a.Called, name)
	}
}

// from returns the stored streams that have objects of a stream, and whether they have selected exactly its objects.
func (p *plan) from(at source.Stream) (names []string, same bool) {
	same = true
	for _, o := range p.of[groupResource(at.Resource)].meeting(at.Namespace) {
		if !o.has(at) {
			continue
		}
		names = append(names, o.Stream.Name())
		same = same && !o.Retiring && o.Scope == at.Scope() && o.Namespaced == at.Namespaced
	}
	slices.Sort(names)
	return names, same && len(names) > 0
}

// has reports whether a stored stream, which meets another one's resource and namespace, may have objects of it.
func (o *Stored) has(at source.Stream) bool {
	_, left := o.Left[at.Namespace]
	return !o.Retiring || left || at.Namespace == "" || o.Stream.Name() == at.Name()
}

// rest assigns a stored stream that does not go on under its name.
func (p *plan) rest(at *Stored) {
	r := groupResource(at.Resource)
	name := at.Stream.Name()
	if p.assigned[name] {
		return
	}
	a := Assignment{Stream: at.Stream, Action: Retire, Spec: -1, Why: Deselected}
	switch why := p.waiting(r, at.Namespace); {
	case !p.offers.Known:
		a.Action, a.Why = Detach, Unknown
	case p.served(r) == nil && slices.Contains(p.offers.Gone, r):
		a.Why = Gone
	case !p.handed[name] && why != "":
		a.Action, a.Why = Detach, why
	case at.Namespace != "" && p.bySelector(r):
		a.Why = Left
	}
	p.all = append(p.all, a)
}

// waiting returns why it cannot be told whether an entry selects a stored stream; empty if it can.
func (p *plan) waiting(r schema.GroupResource, namespace string) Why {
	for _, w := range p.waits {
		if w.resource == r && (w.namespace == "" || namespace == "" || w.namespace == namespace) {
			return w.why
		}
	}
	return ""
}

// bySelector reports whether an entry reads a resource in namespaces that a selector takes.
func (p *plan) bySelector(r schema.GroupResource) bool {
	s := p.served(r)
	return s != nil && slices.ContainsFunc(p.specs, func(spec Spec) bool {
		return spec.NamespaceSelector != nil &&
			(spec.Wildcard == nil && MayMean(spec.Resource, s) || spec.Wildcard != nil && spec.Wildcard.Names(s))
	})
}

func groupResource(r source.Resource) schema.GroupResource {
	return schema.GroupResource{Group: r.Group, Resource: r.Resource}
}

func fullName(s *catalog.Served) string {
	return schema.GroupResource{Group: s.Group, Resource: s.Resource}.String()
}

func fullNames(all []*catalog.Served, without *catalog.Served) (names []string) {
	for _, s := range all {
		if s != without {
			names = append(names, fullName(s))
		}
	}
	return names
}
