// SPDX-License-Identifier: Apache-2.0

package event

import (
	"encoding/json"
	"maps"
)

// Fold returns what e tells of its object together with previous, the event before it: of a merge patch that applies
// to previous an event with the whole object, or where previous is a patch too, with one patch of both. Of anything
// else it returns e.
func Fold(e, previous *Event) *Event {
	if e.Attr("payload") != "merge-patch" || !e.AppliesTo(previous) {
		return e
	}
	patch, isObject := DecodeJSON(e.Data).(map[string]any)
	if !isObject {
		return e
	}
	payload := "object"
	object, _, whole := previous.States()
	if !whole {
		payload = "merge-patch"
		object, isObject = DecodeJSON(previous.Data).(map[string]any)
	}
	if !isObject {
		return e
	}
	data, err := json.Marshal(merge(object, patch, whole))
	if err != nil {
		return e
	}
	f := *e
	f.Data, f.Message.Data, f.structured = data, data, nil
	f.attributes = maps.Clone(e.attributes)
	f.attributes["payload"] = payload
	return &f
}

// AppliesTo reports whether the patch of e is one of the object that previous is about, as previous left it, and
// previous has the same parts of it.
func (e *Event) AppliesTo(previous *Event) bool {
	if previous == nil || previous.Op != Added && previous.Op != Updated || e.Attr("baseversion") == "" ||
		e.Attr("baseversion") != previous.Attr("resourceversion") {
		return false
	}
	switch previous.Attr("payload") {
	case "object", "change", "merge-patch":
		return previous.Attr("objectuid") == e.Attr("objectuid")
	default:
		return false
	}
}

// merge applies a patch to value, which it may change. Where value is not the whole of an object but a patch, what the
// patch removes stays in it as null.
func merge(value any, patch map[string]any, whole bool) map[string]any {
	o, isObject := value.(map[string]any)
	if !isObject {
		o = make(map[string]any, len(patch))
	}
	for key, v := range patch {
		member, descend := v.(map[string]any)
		switch {
		case descend:
			o[key] = merge(o[key], member, whole)
		case v == nil && whole:
			delete(o, key)
		default:
			o[key] = v
		}
	}
	return o
}
