// SPDX-License-Identifier: Apache-2.0

package tail

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/internal/builtin"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
)

// Selector names resources, and optionally objects of them, as kubectl does: pods, pod, po, deployments.apps,
// deployments.v1.apps, *.example.com, pods/web-0. What is not said matches everything.
type Selector struct {
	resource, version, group string
	// grouped says that group counts, also where it is empty.
	grouped bool
	name    string
	// text is what was read.
	text string
}

// ParseSelector reads a [Selector].
func ParseSelector(s string) (Selector, error) {
	text, name, named := strings.Cut(s, "/")
	resource, rest, _ := strings.Cut(strings.ToLower(text), ".")
	if resource == "" || (named && name == "") {
		return Selector{}, fmt.Errorf("%q names no resource; say pods, deployments.apps, *.example.com or pods/web-0", s)
	}
	if strings.Contains(name, "/") {
		return Selector{},
			fmt.Errorf("%q has two slashes, and no object matches that; say RESOURCE or RESOURCE/NAME, such as pods/web-0, "+
				"and the namespace with -n", s)
	}
	if err := checkName(name); err != nil {
		return Selector{}, err
	}
	sel := Selector{name: name, group: rest, grouped: rest != "", text: s}
	if first, group, _ := strings.Cut(rest, "."); isVersion(first) {
		sel.version, sel.group, sel.grouped = first, group, true
	}
	sel.resource = cmp.Or(builtin.Plural(resource, sel.group, sel.grouped), resource)
	return sel, nil
}

// checkName refuses a pattern that is none, or that no object's name matches.
func checkName(pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil {
		return fmt.Errorf(
			"%q is no pattern for names; * and ? stand for any text and any letter, [a-c] for one of some letters", pattern)
	}
	if strings.ContainsAny(pattern, "/ \t\r\n") {
		return fmt.Errorf("%q has what no name has, a slash or a space; say a name such as web-0, or web-*", pattern)
	}
	return nil
}

// ParseNames checks patterns for [Filter.Names].
func ParseNames(patterns []string) ([]string, error) {
	for _, p := range patterns {
		if err := checkName(p); err != nil {
			return nil, err
		}
	}
	return patterns, nil
}

// isVersion reports whether s is an API version: v1, v2beta1.
func isVersion(s string) bool {
	return len(s) > 1 && s[0] == 'v' && '0' <= s[1] && s[1] <= '9'
}

func (s Selector) matches(e *event.Event) bool {
	return (s.resource == "*" || s.resource == e.Resource || s.resource == strings.ToLower(e.Attr("kind"))) &&
		(s.version == "" || s.version == e.Version) &&
		(!s.grouped || s.group == e.Group) &&
		(s.name == "" || e.Op == event.Gap || !e.Op.Marker() && glob(s.name, e.Attr("name")))
}

// Filter says which events are shown. An empty field lets everything pass. A gap passes names and Ops: it qualifies
// what they let pass.
type Filter struct {
	Resources  []Selector
	Pipelines  []string
	Namespaces []string
	// Names are patterns as of path.Match.
	Names []string
	Ops   []event.Op
}

// ParseOps reads operations; snapshot and resync stand for both of their markers.
func ParseOps(words []string) ([]event.Op, error) {
	var ops []event.Op
	for _, w := range words {
		switch op := event.Op(strings.ToLower(w)); op {
		case event.Added, event.Updated, event.Deleted, event.Rejected, event.Gap, event.SnapshotStarted,
			event.SnapshotCompleted, event.ResyncStarted, event.ResyncCompleted:
			ops = append(ops, op)
		case "snapshot":
			ops = append(ops, event.SnapshotStarted, event.SnapshotCompleted)
		case "resync":
			ops = append(ops, event.ResyncStarted, event.ResyncCompleted)
		default:
			return nil, fmt.Errorf("%q is no operation; use added, updated, deleted, rejected, gap, snapshot or resync", w)
		}
	}
	return ops, nil
}

// covers reports whether e is about something that the filter lets pass, whatever happened to it.
func (f *Filter) covers(e *event.Event) bool {
	if len(f.Resources) > 0 && !slices.ContainsFunc(f.Resources, func(s Selector) bool { return s.matches(e) }) {
		return false
	}
	if len(f.Pipelines) > 0 && !slices.Contains(f.Pipelines, e.Attr("pipeline")) {
		return false
	}
	if e.Op.Marker() {
		scope := scopeOf(e).Namespace
		return len(f.Namespaces) == 0 || scope == "" || slices.Contains(f.Namespaces, scope)
	}
	return (len(f.Namespaces) == 0 || slices.Contains(f.Namespaces, e.Attr("namespace"))) &&
		(len(f.Names) == 0 || slices.ContainsFunc(f.Names, func(n string) bool { return glob(n, e.Attr("name")) }))
}

// Shows reports whether e passes the filter.
func (f *Filter) Shows(e *event.Event) bool {
	switch {
	case !f.covers(e):
		return false
	case len(f.Ops) > 0:
		return e.Op == event.Gap || slices.Contains(f.Ops, e.Op)
	default:
		return len(f.Names) == 0 || e.Op == event.Gap || !e.Op.Marker()
	}
}

// asksFor reports whether an event that passes the filter is about what was asked for. A marker that is about more than
// the objects asked for says nothing of them.
func (f *Filter) asksFor(e *event.Event) bool {
	return !e.Op.Marker() || len(f.Ops) > 0 || len(f.Namespaces)+len(f.Names) == 0
}

func glob(pattern, name string) bool {
	ok, _ := path.Match(pattern, name) // patterns were checked when they were read
	return ok
}
