// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/internal/filter"
)

// filter checks an expression, and warns of what it fails without.
func (v *validator) filter(path string, r *Resource) {
	oneOf(v, path+".onFilterError", r.OnFilterError)
	if r.Filter == "" {
		return
	}
	e, err := filter.ParseExpression(r.Filter)
	if err != nil {
		v.add(path+".filter", "%v", err)
		return
	}
	var missing, guards []string
	for _, m := range e.Unguarded() {
		missing, guards = append(missing, m.String()), append(guards, m.Guard())
	}
	if len(missing) > 0 {
		becomes := map[OnFilterError]string{OnFilterErrorPublish: "published", OnFilterErrorDrop: "dropped"}[r.OnFilterError]
		v.warn(path+".filter", "fails where an object has no %s, and the change is then %s (onFilterError: %s); "+
			"guard it where it is used: %s && …", strings.Join(missing, " or no "), becomes, r.OnFilterError,
			strings.Join(guards, " && "))
	}
}

// operations checks which events of a resource are published.
func (v *validator) operations(path string, r *Resource) {
	for i, op := range r.Operations {
		at := fmt.Sprintf("%s.operations[%d]", path, i)
		if slices.Contains(r.Operations[:i], op) {
			v.add(at, "%q is there twice; keep one", op)
			continue
		}
		oneOf(v, at, op)
	}
	if len(r.Operations) == 0 {
		v.add(path+".operations",
			"lists none, so that nothing would be published; write some of added, updated, deleted, or leave it out for all")
	}
	v.filter(path, r)
	for i, p := range v.paths(path+".ignoreChanges", r.IgnoreChanges) {
		if instead := p.Beyond(r.hasTexts()); instead != "" {
			v.add(fmt.Sprintf("%s.ignoreChanges[%d]", path, i),
				"path %q names nothing, as what it leads into is a text; write %s", p, instead)
		}
	}
	v.members(path+".ignoreChanges", r.IgnoreChanges, *r)
	if len(r.IgnoreChanges) > 0 && !slices.Contains(r.Operations, Updated) {
		v.add(path+".ignoreChanges", "is about updates, which operations does not list; add updated, or remove ignoreChanges")
	}
}
