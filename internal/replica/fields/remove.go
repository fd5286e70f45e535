// SPDX-License-Identifier: Apache-2.0

// Package fields finds fields of objects as the answers of an API server name them.
package fields

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RemoveAll removes the fields that causes name, as [Remove] does, and returns those that were there.
func RemoveAll(object map[string]any, causes []metav1.StatusCause) (removed []string) {
	for _, cause := range causes {
		if Remove(object, cause.Field) {
			removed = append(removed, cause.Field)
		}
	}
	return removed
}

// Remove removes the field of an object that a path of an API server's answer names, as in
// .spec.template.spec.containers[name="web"].image. It reports whether the object had the field.
//
// Names of members stand in such a path without quotes, whatever they have. So the longest name counts that the object
// has and the path goes on with.
func Remove(object map[string]any, path string) bool {
	_, removed := removeAt(object, path)
	return removed
}

// removeAt returns v without the field at path.
func removeAt(v any, path string) (without any, removed bool) {
	switch v := v.(type) {
	case map[string]any:
		name, rest, ok := memberAt(v, path)
		if !ok {
			return v, false
		}
		if rest == "" {
			delete(v, name)
			return v, true
		}
		v[name], removed = removeAt(v[name], rest)
		return v, removed
	case []any:
		i, rest, ok := elementAt(v, path)
		if !ok {
			return v, false
		}
		if rest == "" {
			return slices.Delete(v, i, i+1), true
		}
		v[i], removed = removeAt(v[i], rest)
		return v, removed
	default:
		return v, false
	}
}

func memberAt(v map[string]any, path string) (name, rest string, ok bool) {
	if !strings.HasPrefix(path, ".") {
		return "", "", false
	}
	for candidate := range v {
		after, begins := strings.CutPrefix(path[1:], candidate)
		if begins && (after == "" || after[0] == '.' || after[0] == '[') && (!ok || len(candidate) > len(name)) {
			name, rest, ok = candidate, after, true
		}
	}
	return name, rest, ok
}

// elementAt finds the element of a list that [3], [="value"] or [name="web",protocol="TCP"] names.
func elementAt(v []any, path string) (index int, rest string, ok bool) {
	inside, rest, ok := bracket(path)
	if !ok {
		return 0, "", false
	}
	if i, err := strconv.Atoi(inside); err == nil {
		return i, rest, i >= 0 && i < len(v)
	}
	for i, element := range v {
		if matches(element, inside) {
			return i, rest, true
		}
	}
	return 0, "", false
}

// bracket returns what stands between the brackets at the beginning of path, and what follows.
func bracket(path string) (inside, rest string, ok bool) {
	if !strings.HasPrefix(path, "[") {
		return "", "", false
	}
	quoted := false
	for i := 1; i < len(path); i++ {
		switch c := path[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == ']' && !quoted:
			return path[1:i], path[i+1:], true
		}
	}
	return "", "", false
}

// matches reports whether an element has all the members that a key names, or is the value that stands there.
func matches(element any, key string) bool {
	for key != "" {
		name, after, ok := strings.Cut(key, "=")
		if !ok {
			return false
		}
		d := json.NewDecoder(strings.NewReader(after))
		d.UseNumber()
		var want any
		if d.Decode(&want) != nil {
			return false
		}
		key = strings.TrimPrefix(after[d.InputOffset():], ",")
		got := element
		if name != "" {
			object, _ := element.(map[string]any)
			got = object[name]
		}
		if got != want {
			return false
		}
	}
	return true
}
