// SPDX-License-Identifier: Apache-2.0

package tail

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// jsonPatch lists the operations of a JSON patch; what has not the form of one is left out.
func jsonPatch(patch any) []difference {
	operations, _ := patch.([]any)
	var found []difference
	for _, v := range operations {
		o, _ := v.(map[string]any)
		pointer, ok := o["path"].(string)
		path := pointerPath(pointer)
		switch op := o["op"]; {
		case !ok || ignored(path):
		case op == "add":
			found = append(found, difference{path, added, nil, o["value"]})
		case op == "remove":
			found = append(found, difference{path, removed, nil, nil})
		case op != "test":
			found = append(found, difference{path, set, nil, o["value"]})
		}
	}
	return found
}

func pointerPath(pointer string) string {
	path := ""
	for _, token := range strings.Split(pointer, "/")[1:] {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		if _, err := strconv.Atoi(token); err == nil || token == "-" {
			path = element(path, token)
		} else {
			path = member(path, token)
		}
	}
	return path
}

func rank(path string) int {
	switch {
	case under(path, "metadata"):
		return 1
	case under(path, "status"):
		return 2
	default:
		return 0
	}
}

const (
	maxValue  = 40
	maxStatus = 3
)

// join writes differences in one line: spec, data and the like first, then metadata, at most limit of them and how many
// more there are, then the status.
func join(found []difference, limit int) string {
	slices.SortStableFunc(found, func(a, b difference) int { return cmp.Compare(rank(a.path), rank(b.path)) })
	var parts, status []string
	n := 0
	noise, changes := partition(found)
	for _, d := range changes {
		s, ok := inStatus(d)
		switch {
		case ok:
			status = append(status, s)
		case n < limit:
			parts = append(parts, d.String())
			n++
		default:
			n++
		}
	}
	if n > limit {
		parts = append(parts, fmt.Sprintf("+%d more", n-limit))
	}
	if len(status) == 0 && len(noise) > 0 && len(parts) == 0 {
		status = noise
	}
	if len(status) > 0 {
		if len(status) > maxStatus {
			status = append(status[:maxStatus:maxStatus], fmt.Sprintf("+%d more", len(status)-maxStatus))
		}
		parts = append(parts, "status: "+strings.Join(status, ", "))
	}
	return strings.Join(parts, ", ")
}

// partition separates what only accompanies other changes of a status: times, messages, the observed generation. Of
// those it returns the names.
func partition(found []difference) (noise []string, changes []difference) {
	for _, d := range found {
		field := d.path[strings.LastIndexAny(d.path, ".]")+1:]
		if !under(d.path, "status") || !accompanies(field) {
			changes = append(changes, d)
		} else if !slices.Contains(noise, field) {
			noise = append(noise, field)
		}
	}
	return noise, changes
}

func accompanies(field string) bool {
	switch field {
	case "observedGeneration", "message", "reason":
		return true
	default:
		return strings.HasSuffix(field, "Time")
	}
}

// inStatus writes a difference of the status without what is always the same. ok is false for other differences.
func inStatus(d difference) (s string, ok bool) {
	if !under(d.path, "status") || d.path == "status" {
		return "", false
	}
	d.path = strings.TrimPrefix(d.path, "status")
	d.path = strings.TrimPrefix(d.path, ".")
	if rest, ok := strings.CutPrefix(d.path, "conditions["); ok {
		condition, field, _ := strings.Cut(rest, "]")
		if field == "" {
			if o, isObject := d.new.(map[string]any); isObject {
				d.new = o["status"]
			}
		}
		if field == ".status" || field == "" {
			d.path = condition
		}
	}
	return d.String(), true
}

// String writes the difference in short: path old→new.
func (d difference) String() string {
	switch d.how {
	case changed:
		return d.path + " " + show(d.old) + "→" + show(d.new)
	case set:
		return d.path + " →" + show(d.new)
	case added:
		if d.new == nil {
			return d.path + " added"
		}
		return d.path + " added (" + show(d.new) + ")"
	case removed:
		if d.old == nil {
			return d.path + " removed"
		}
		return d.path + " removed (" + show(d.old) + ")"
	case reordered:
		return d.path + " reordered"
	default:
		panic("BUG: difference of no kind")
	}
}

// show writes a value so that its type can be told, and nothing in it reaches a terminal as a command.
func show(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return shorten(v.String(), maxValue)
	case string:
		if mask, ok := maskOf(v); ok {
			return mask
		}
		if plain(v) {
			return shorten(v, maxValue)
		}
		return `"` + shorten(Printable(v), maxValue) + `"`
	case []any:
		return fmt.Sprintf("[%d]", len(v))
	case map[string]any:
		return fmt.Sprintf("{%d}", len(v))
	default:
		panic(fmt.Sprintf("BUG: a JSON value of type %T", v))
	}
}

// masked is how the base64 of every text begins that stands for the value of a Secret.
const masked = "W3JlZGFjdGVk" // [redacted

// maskOf returns the text that stands for the value of a Secret, with its hash where it has one.
func maskOf(v string) (mask string, ok bool) {
	if !strings.HasPrefix(v, masked) {
		return "", false
	}
	text, err := base64.StdEncoding.DecodeString(v)
	if err != nil || !maskForm.Match(text) {
		return "", false
	}
	return string(text), true
}

var maskForm = regexp.MustCompile(`^\[redacted( hmac-sha256:[0-9a-f]{16})?\]$`)

// plain reports whether a string can stand without quotes: no reader takes it for another type, or for several values.
func plain(s string) bool {
	if !printable(s) || strings.ContainsAny(s, " \",()→") || json.Valid([]byte(s)) {
		return false
	}
	return s != ""
}
