// SPDX-License-Identifier: Apache-2.0

package tail

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
)

// How a value differs from what it was.
type how uint8

const (
	changed how = iota
	added
	removed
	// set: what it was is not known.
	set
	reordered
)

// difference is one path of an object whose value is not what it was. The path is printable.
type difference struct {
	path     string
	how      how
	old, new any
}

// diff returns what differs between two states of an object, in the order of paths. What every write changes
// (resourceVersion, generation, managedFields) is left out. Elements of lists are told apart by their name, type or the
// like, where they have one.
func diff(before, after any) []difference {
	var d differ
	d.value("", before, after)
	return d.found
}

// under reports whether path is field or something in it.
func under(path, field string) bool {
	if len(path) < len(field) || path[:len(field)] != field {
		return false
	}
	return len(path) == len(field) || path[len(field)] == '.' || path[len(field)] == '['
}

func ignored(path string) bool {
	switch path {
	case "metadata.resourceVersion", "metadata.generation", "metadata.managedFields",
		"metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]":
		return true
	default:
		return false
	}
}

type differ struct{ found []difference }

func (d *differ) add(path string, h how, before, after any) {
	if !ignored(path) {
		d.found = append(d.found, difference{path, h, before, after})
	}
}

func (d *differ) value(path string, before, after any) {
	switch b := before.(type) {
	case map[string]any:
		if a, ok := after.(map[string]any); ok {
			d.object(path, b, a)
			return
		}
	case []any:
		if a, ok := after.([]any); ok {
			d.list(path, b, a)
			return
		}
	}
	if !reflect.DeepEqual(before, after) {
		d.add(path, changed, before, after)
	}
}

func (d *differ) object(path string, before, after map[string]any) {
	for _, key := range sortedKeys(before, after) {
		b, was := before[key]
		a, is := after[key]
		switch p := member(path, key); {
		case ignored(p):
		case was && is:
			d.value(p, b, a)
		case is:
			d.appear(p, a)
		default:
			d.disappear(p, b)
		}
	}
}

// appear descends into a new object of one to three members: labels.x says more than labels.
func (d *differ) appear(path string, v any) {
	if o, ok := v.(map[string]any); ok && len(o) > 0 && len(o) <= 3 {
		for _, key := range sortedKeys(o, nil) {
			d.appear(member(path, key), o[key])
		}
		return
	}
	d.add(path, added, nil, v)
}

func (d *differ) disappear(path string, v any) {
	if o, ok := v.(map[string]any); ok && len(o) > 0 && len(o) <= 3 {
		for _, key := range sortedKeys(o, nil) {
			d.disappear(member(path, key), o[key])
		}
		return
	}
	d.add(path, removed, v, nil)
}

func sortedKeys(a, b map[string]any) []string {
	keys := make([]string, 0, len(a)+len(b))
	for k := range a {
		keys = append(keys, k)
	}
	for k := range b {
		if _, twice := a[k]; !twice {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

func (d *differ) list(path string, before, after []any) {
	name := keyOf(before, after)
	if name == nil {
		d.byIndex(path, before, after)
		return
	}
	found := len(d.found)
	later := make(map[string]any, len(after))
	for _, v := range after {
		later[name(v)] = v
	}
	earlier := make(map[string]bool, len(before))
	for _, v := range before {
		k := name(v)
		earlier[k] = true
		if a, ok := later[k]; ok {
			d.value(element(path, k), v, a)
		} else {
			d.add(element(path, k), removed, ifObject(v), nil)
		}
	}
	for _, v := range after {
		if k := name(v); !earlier[k] {
			d.add(element(path, k), added, nil, ifObject(v))
		}
	}
	if len(d.found) == found && !reflect.DeepEqual(before, after) && !sameOrder(before, after, name) {
		d.add(path, reordered, nil, nil)
	}
}

func (d *differ) byIndex(path string, before, after []any) {
	for i := range max(len(before), len(after)) {
		switch p := path + "[" + strconv.Itoa(i) + "]"; {
		case i >= len(after):
			d.add(p, removed, before[i], nil)
		case i >= len(before):
			d.add(p, added, nil, after[i])
		default:
			d.value(p, before[i], after[i])
		}
	}
}

func sameOrder(before, after []any, name func(any) string) bool {
	return slices.EqualFunc(before, after, func(a, b any) bool { return name(a) == name(b) })
}

// ifObject leaves out a scalar: it stands in the path already.
func ifObject(v any) any {
	switch v.(type) {
	case map[string]any, []any:
		return v
	default:
		return nil
	}
}

// keyOf returns what names each element of two lists uniquely; nil where nothing does.
func keyOf(lists ...[]any) func(any) string {
	if unique(lists, scalar) {
		return scalar
	}
	for _, field := range []string{"name", "type", "uid", "key", "ip", "containerPort", "port", "mountPath"} {
		name := func(v any) string {
			o, _ := v.(map[string]any)
			return scalar(o[field])
		}
		if unique(lists, name) {
			return name
		}
	}
	return nil
}

func unique(lists [][]any, name func(any) string) bool {
	for _, list := range lists {
		seen := make(map[string]bool, len(list))
		for _, v := range list {
			n := name(v)
			if n == "" || seen[n] {
				return false
			}
			seen[n] = true
		}
	}
	return true
}

// scalar returns the text of a string or number, empty for everything else.
func scalar(v any) string {
	switch s := v.(type) {
	case string:
		return s
	case json.Number:
		return s.String()
	default:
		return ""
	}
}

// member is the path of an object's member; names that are no plain words stand in brackets.
func member(path, key string) string {
	switch {
	case !word(key):
		return element(path, key)
	case path == "":
		return key
	default:
		return path + "." + key
	}
}

func element(path, key string) string { return path + "[" + shorten(Printable(key), 64) + "]" }

func word(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return s != "" && len(s) <= 64
}
