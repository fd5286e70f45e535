// SPDX-License-Identifier: Apache-2.0

package clean

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
)

// Object changes an object of the source, in place, into what is written to the target:
//   - The rules of [Kinds] and then those of [Common] are applied.
//   - Fields of Ignore are removed.
//   - The namespace becomes the target's.
//   - Labels and Annotations are set, and the label of the replica. The annotations of the origin are not.
//
// A list, and a map of labels, annotations or data, is removed if nothing is left in it. Object is for objects that
// [Rules.Skips] does not name. Of its result, it would make the same, with two exceptions: namespaces are mapped once
// more, and the first use removes the sign that a user chose node ports.
//
// The error says that something is not as in any object of an API server, or that the namespace has no target.
func (r *Rules) Object(resource schema.GroupResource, object map[string]any) error {
	metadata, _ := object["metadata"].(map[string]any)
	name, namespace := text(metadata["name"]), text(metadata["namespace"])
	if name == "" {
		return errors.New("the object has no metadata.name")
	}
	for _, member := range []string{"labels", "annotations"} {
		if _, isMap := metadata[member].(map[string]any); metadata[member] != nil && !isMap {
			return fmt.Errorf("metadata.%s is not an object", member)
		}
	}
	target, ok := r.Target(resource, types.NamespacedName{Namespace: namespace, Name: name})
	if !ok {
		return fmt.Errorf("%s has no target: another namespace is mapped to the name of its own", target)
	}
	for rule := range rulesOf(resource) {
		if rule.when != nil && !rule.when(r, object) {
			continue
		}
		for _, p := range rule.Paths {
			if rule.value == nil {
				remove(object, p)
				continue
			}
			edit(object, p.Steps(), func(v any) (any, bool) { return rule.value(r, object, v) })
		}
	}
	for _, p := range r.Ignore {
		remove(object, p)
	}
	metadata["name"] = target.Name
	if target.Namespace != "" {
		metadata["namespace"] = target.Namespace
	}
	set(metadata, "labels", r.Labels)
	set(metadata, "labels", map[string]string{Label: r.Replica})
	set(metadata, "annotations", r.Annotations)
	return nil
}

func set(metadata map[string]any, member string, texts map[string]string) {
	if len(texts) == 0 {
		return
	}
	all, _ := metadata[member].(map[string]any)
	if all == nil {
		all = make(map[string]any, len(texts)+1)
		metadata[member] = all
	}
	for k, v := range texts {
		all[k] = v
	}
}

// Annotate says in an object what it is a copy of.
func Annotate(object map[string]any, origin, uid, sequence string) {
	metadata, _ := object["metadata"].(map[string]any)
	set(metadata, "annotations", map[string]string{Origin: origin, OriginUID: uid, OriginSequence: sequence})
}

// Retain completes desired, which [Rules.Object] made, for a request that replaces the object. What the rules remove,
// and what Ignore names, belongs to the target: it is taken from actual, the object as the target has it. That has
// metadata.uid and metadata.resourceVersion too, so that the request has its preconditions. What desired has stays.
//
// Elements of two lists belong together if the lists have the same length and the elements at each place the same name.
// Afterwards desired shares values with actual.
func (r *Rules) Retain(resource schema.GroupResource, desired, actual map[string]any) {
	for rule := range rulesOf(resource) {
		if rule.value != nil || rule.serverKeeps || rule.when != nil && !rule.when(r, desired) && !rule.when(r, actual) {
			continue
		}
		for _, p := range rule.Paths {
			fill(desired, actual, trimmed(p))
		}
	}
	r.RetainIgnored(desired, actual)
}

// RetainIgnored is [Rules.Retain], of what Ignore names alone.
func (r *Rules) RetainIgnored(desired, actual map[string]any) {
	for _, p := range r.Ignore {
		fill(desired, actual, trimmed(p))
	}
}

// IgnoresAny reports whether Ignore names one of the fields of an entry of managedFields, in the form FieldsV1.
func (r *Rules) IgnoresAny(fieldsV1 map[string]any) bool {
	return slices.ContainsFunc(r.Ignore, func(p jsonscan.Path) bool { return hasField(fieldsV1, trimmed(p)) })
}

func hasField(fieldsV1 map[string]any, steps []jsonscan.Step) bool {
	if len(steps) == 0 {
		return true
	}
	for name, v := range fieldsV1 {
		below, _ := v.(map[string]any)
		if (steps[0].Every && name != "." || name == "f:"+steps[0].Name) && hasField(below, steps[1:]) {
			return true
		}
	}
	return false
}

// Remapped gives the ownerReferences of an object, which [Rules.Object] left as in the source, the uids of the owners
// in the target. It returns the references of which uid knows none, and then changes nothing: the object has to wait.
func Remapped(
	object map[string]any, uid func(source types.UID, name string) (target types.UID, ok bool),
) (missing []map[string]any) {
	metadata, _ := object["metadata"].(map[string]any)
	references, _ := metadata["ownerReferences"].([]any)
	uids := make([]types.UID, len(references))
	for i, v := range references {
		reference, _ := v.(map[string]any)
		var ok bool
		uids[i], ok = uid(types.UID(text(reference["uid"])), text(reference["name"]))
		if !ok {
			missing = append(missing, reference)
		}
	}
	if missing != nil {
		return missing
	}
	changed := make([]any, len(references))
	for i, v := range references {
		reference, _ := v.(map[string]any)
		reference = maps.Clone(reference)
		if reference != nil {
			reference["uid"] = string(uids[i])
		}
		changed[i] = reference
	}
	if len(changed) > 0 {
		metadata["ownerReferences"] = changed
	}
	return nil
}

func remove(object map[string]any, p jsonscan.Path) {
	edit(object, trimmed(p), func(any) (any, bool) { return nil, false })
}

// edit replaces each value within v that the steps name by what f returns, or removes it, and returns v, which is
// another slice if elements of it were removed.
func edit(v any, steps []jsonscan.Step, f func(any) (any, bool)) any {
	switch v := v.(type) {
	case map[string]any:
		if !steps[0].Every {
			if _, has := v[steps[0].Name]; has {
				editMember(v, steps[0].Name, steps[1:], f)
			}
			return v
		}
		for name := range v {
			editMember(v, name, steps[1:], f)
		}
	case []any:
		kept := v[:0]
		for _, element := range v {
			keep := true
			switch {
			case !steps[0].Every:
				element = edit(element, steps, f)
			case len(steps) > 1:
				element = edit(element, steps[1:], f)
			default:
				element, keep = f(element)
			}
			if keep {
				kept = append(kept, element)
			}
		}
		clear(v[len(kept):])
		return kept
	}
	return v
}

func editMember(object map[string]any, name string, rest []jsonscan.Step, f func(any) (any, bool)) {
	before, after, keep := object[name], any(nil), true
	if len(rest) == 0 {
		after, keep = f(before)
	} else {
		after = edit(before, rest, f)
	}
	if !keep || emptied(name, before, after) {
		delete(object, name)
		return
	}
	object[name] = after
}

// emptied reports whether a member has to go as nothing is left of it. An empty map may mean something where it is no
// map of texts, as an empty selector does.
func emptied(name string, before, after any) bool {
	switch after := after.(type) {
	case []any:
		list, _ := before.([]any)
		return len(after) == 0 && len(list) > 0
	case map[string]any:
		switch name {
		case "labels", "annotations", "data", "binaryData", "stringData":
			return len(after) == 0
		}
	}
	return false
}

// fill copies each value that the steps name from one object to another that lacks it.
func fill(to, from any, steps []jsonscan.Step) {
	switch from := from.(type) {
	case map[string]any:
		to, isMap := to.(map[string]any)
		if !isMap {
			return
		}
		for name, value := range from {
			if !steps[0].Every && steps[0].Name != name {
				continue
			}
			own, has := to[name]
			switch {
			case len(steps) == 1 && !has:
				to[name] = value
			case len(steps) > 1 && has:
				fill(own, value, steps[1:])
			case len(steps) > 1:
				if _, isMap := value.(map[string]any); isMap {
					made := map[string]any{}
					if fill(made, value, steps[1:]); len(made) > 0 {
						to[name] = made
					}
				}
			}
		}
	case []any:
		to, isList := to.([]any)
		if !isList || len(to) != len(from) {
			return
		}
		if steps[0].Every {
			steps = steps[1:]
		}
		for i := range from {
			a, _ := to[i].(map[string]any)
			b, _ := from[i].(map[string]any)
			if len(steps) > 0 && a != nil && text(a["name"]) == text(b["name"]) {
				fill(a, from[i], steps)
			}
		}
	}
}

// trimmed returns the steps of a path to what is removed, without those at its end that are for every member or
// element: to remove all of them is to remove what has them.
func trimmed(p jsonscan.Path) []jsonscan.Step {
	steps := p.Steps()
	for len(steps) > 0 && steps[len(steps)-1].Every {
		steps = steps[:len(steps)-1]
	}
	return steps
}

func text(v any) string {
	s, _ := v.(string)
	return s
}
