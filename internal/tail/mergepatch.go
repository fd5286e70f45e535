// SPDX-License-Identifier: Apache-2.0

package tail

import "github.com/kube-eventbridge/kube-eventbridge/internal/event"

// mergePatch lists what the merge patch of e sets and removes, and what that was before, as far as the event before
// tells: an object whole, or a patch what it and those that it was folded with set.
func mergePatch(e, previous *event.Event) []difference {
	var d differ
	d.patch("", event.DecodeJSON(e.Data), priorOf(e, previous))
	return d.found
}

// prior is what is known of a value before a patch.
type prior struct {
	value any
	// known: it is known whether the value was there, and there is that it was.
	known, there bool
	// whole: what value does not have was not there; else that is not known.
	whole bool
}

// priorOf returns what previous tells of the object that e applies to.
func priorOf(e, previous *event.Event) prior {
	if !e.AppliesTo(previous) {
		return prior{}
	}
	if object, _, ok := previous.States(); ok {
		return prior{value: object, known: true, there: true, whole: true}
	}
	patch, ok := event.DecodeJSON(previous.Data).(map[string]any)
	return prior{value: patch, known: ok, there: ok}
}

func (p prior) member(key string) prior {
	o, ok := p.value.(map[string]any)
	v, there := o[key]
	switch {
	case !p.known:
		return prior{}
	case !p.there, !ok: // a value without members
		return prior{known: true}
	case there:
		return prior{value: v, known: true, there: p.whole || v != nil, whole: p.whole}
	default:
		return prior{known: p.whole}
	}
}

func (d *differ) patch(path string, patch any, before prior) {
	o, ok := patch.(map[string]any)
	switch {
	case !ok && path == "":
		return
	case !ok && !before.known:
		d.add(path, set, nil, patch)
		return
	case !ok && !before.there:
		d.appear(path, patch)
		return
	case !ok:
		d.value(path, before.value, patch)
		return
	}
	for _, key := range sortedKeys(o, nil) {
		p, was := member(path, key), before.member(key)
		switch {
		case ignored(p):
		case o[key] == nil && was.there:
			d.disappear(p, was.value)
		case o[key] == nil:
			d.add(p, removed, nil, nil)
		default:
			d.patch(p, o[key], was)
		}
	}
}
