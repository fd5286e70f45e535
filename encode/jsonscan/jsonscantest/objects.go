// SPDX-License-Identifier: Apache-2.0

// Package jsonscantest generates JSON for tests.
package jsonscantest

import (
	"encoding/json"
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// Objects generates JSON made of the names and punctuation that a scanner could stumble over.
type Objects struct {
	T *rapid.T
	// White adds white space, and Repeat repeats names.
	White, Repeat bool
}

var (
	names = []string{
		"metadata", "managedFields", "annotations", "kubectl.kubernetes.io/last-applied-configuration", "time", "manager",
		"creationTimestamp", "spec", "a", "", "m\u0065tadata", "tadata", "fieldsV1",
		`k:{"x":1},{`, `"`, `\`, "]},", "},{", "日本",
	}
	strs = []string{
		"", "x", "2026-01-02T03:04:05Z", "2026-12-31T23:59:59Z", "2026-01-02T03:04:05.5+01:00", "2026-02-30T00:00:00Z",
		"kubelet", `a"b`, `\`, `\"`, `}],"x":`, `]},"x`,
		`},{"manager":"m"`, `"managedFields":[`, `{"metadata":{`, "\n", "日本語", " ",
	}
)

// Space generates white space, or none.
func (o Objects) Space() string {
	if !o.White {
		return ""
	}
	return rapid.SampledFrom([]string{"", "", " ", "\n", "\t ", "\r\n"}).Draw(o.T, "space")
}

// Text spells a string in one of the ways that JSON has.
func (o Objects) Text(s string) string {
	q := must.Get(json.Marshal(s))(o.T)
	if len(s) == 0 || rapid.IntRange(0, 9).Draw(o.T, "escape") > 0 {
		return string(q)
	}
	if strings.Contains(s, "/") {
		return strings.ReplaceAll(string(q), "/", `\/`)
	}
	if r := s[0]; r < 0x80 && r != '"' && r != '\\' && r >= ' ' {
		return fmt.Sprintf(`"\u%04x%s`, r, q[2:])
	}
	return string(q)
}

// Value generates a value that is nested as deep at most.
func (o Objects) Value(depth int) string {
	kinds := 7
	if depth == 0 {
		kinds = 5
	}
	switch rapid.IntRange(0, kinds-1).Draw(o.T, "kind") {
	case 0:
		return "null"
	case 1:
		return rapid.SampledFrom([]string{"0", "-1.5e+3", "true", "false"}).Draw(o.T, "scalar")
	case 2, 3, 4:
		return o.Text(rapid.SampledFrom(strs).Draw(o.T, "text"))
	case 5:
		return o.list(depth - 1)
	default:
		return o.Object(depth - 1)
	}
}

func (o Objects) list(depth int) string {
	var items []string
	for range rapid.IntRange(0, 4).Draw(o.T, "items") {
		items = append(items, o.Space()+o.Value(depth)+o.Space())
	}
	return "[" + strings.Join(items, ",") + "]"
}

// Object generates an object that is nested as deep at most.
func (o Objects) Object(depth int) string {
	var members []string
	used := map[string]bool{}
	for range rapid.IntRange(0, 6).Draw(o.T, "members") {
		name := rapid.SampledFrom(names).Draw(o.T, "name")
		if used[name] && !o.Repeat {
			continue
		}
		used[name] = true
		members = append(members, o.Space()+o.Text(name)+o.Space()+":"+o.Space()+o.member(name, depth)+o.Space())
	}
	return "{" + strings.Join(members, ",") + "}"
}

// member makes it likely that a name has what belongs to it.
func (o Objects) member(name string, depth int) string {
	if depth > 0 && rapid.IntRange(0, 3).Draw(o.T, "fitting") > 0 {
		switch name {
		case "metadata", "annotations":
			return o.Object(depth - 1)
		case "managedFields":
			return o.ManagedFields(depth - 1)
		}
	}
	return o.Value(depth)
}

// ManagedFields generates a list like metadata.managedFields.
func (o Objects) ManagedFields(depth int) string {
	var entries []string
	for range rapid.IntRange(0, 4).Draw(o.T, "entries") {
		entry := o.Object(depth)
		if rapid.Bool().Draw(o.T, "like an API server") {
			times := strs[2:6]
			entry = `{"manager":` + o.Text(rapid.SampledFrom(strs).Draw(o.T, "manager")) + `,"time":"` +
				rapid.SampledFrom(times).Draw(o.T, "time") + `","fieldsV1":` + o.Object(min(depth, 1)) + `}`
		}
		entries = append(entries, o.Space()+entry)
	}
	return "[" + strings.Join(entries, ",") + "]"
}
