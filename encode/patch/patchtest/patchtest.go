// SPDX-License-Identifier: Apache-2.0

// Package patchtest applies patches as the RFCs define it, and changes objects at random.
package patchtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan/jsonscantest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// Decoded decodes JSON, and leaves numbers as they are written.
func Decoded(t testing.TB, text []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v), "%s", text)
	return v
}

// Merge is the function of section 2 of RFC 7386.
func Merge(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	t, ok := target.(map[string]any)
	if !ok {
		t = map[string]any{}
	}
	for name, value := range p {
		if value == nil {
			delete(t, name)
		} else {
			t[name] = Merge(t[name], value)
		}
	}
	return t
}

// Apply applies the operations add, remove and replace, and refuses what RFC 6902 calls an error.
func Apply(target any, patch []any) (any, error) {
	for _, v := range patch {
		o := v.(map[string]any)
		tokens := strings.Split(o["path"].(string), "/")[1:]
		for i, token := range tokens {
			tokens[i] = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		}
		var err error
		if target, err = operate(target, tokens, o["op"].(string), o["value"]); err != nil {
			return nil, fmt.Errorf("%v: %w", o, err)
		}
	}
	return target, nil
}

func operate(target any, tokens []string, op string, value any) (any, error) {
	if len(tokens) == 0 {
		return value, nil
	}
	switch at := target.(type) {
	case map[string]any:
		return operateMember(at, tokens, op, value)
	case []any:
		return operateElement(at, tokens, op, value)
	default:
		return nil, fmt.Errorf("%T has nothing at %s", target, tokens[0])
	}
}

func operateMember(o map[string]any, tokens []string, op string, value any) (any, error) {
	inner, exists := o[tokens[0]]
	switch {
	case !exists && (op != "add" || len(tokens) > 1):
		return nil, fmt.Errorf("there is no %q", tokens[0])
	case len(tokens) == 1 && op == "remove":
		delete(o, tokens[0])
		return o, nil
	}
	changed, err := operate(inner, tokens[1:], op, value)
	o[tokens[0]] = changed
	return o, err
}

func operateElement(list []any, tokens []string, op string, value any) (any, error) {
	i, err := strconv.Atoi(tokens[0])
	switch last := len(tokens) == 1; {
	case err != nil || i < 0 || i > len(list) || i == len(list) && (op != "add" || !last):
		return nil, fmt.Errorf("there is no element %q of %d", tokens[0], len(list))
	case last && op == "add":
		return append(append(append([]any{}, list[:i]...), value), list[i:]...), nil
	case last && op == "remove":
		return append(append([]any{}, list[:i]...), list[i+1:]...), nil
	}
	list[i], err = operate(list[i], tokens[1:], op, value)
	return list, err
}

// Mutated changes some of what an object has.
func Mutated(o jsonscantest.Objects, v any, depth int) any {
	drop := func() bool { return rapid.IntRange(0, 9).Draw(o.T, "change") == 0 }
	fresh := func() any {
		if depth == 0 {
			return "x"
		}
		return DecodedValue(o.Value(depth - 1))
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range sortedNames(v) {
			if drop() {
				delete(v, name)
			} else {
				v[name] = Mutated(o, v[name], depth-1)
			}
		}
		if drop() {
			v[rapid.SampledFrom([]string{"new", "a/b", "a~b", "~1", "", `q"`, "é"}).Draw(o.T, "name")] = fresh()
		}
		return v
	case []any:
		var out []any
		for _, e := range v {
			if drop() {
				out = append(out, fresh())
			}
			if !drop() {
				out = append(out, Mutated(o, e, depth-1))
			}
		}
		if out == nil {
			return []any{}
		}
		return out
	}
	if drop() {
		return fresh()
	}
	return v
}

// DecodedValue is Decoded of what may be no value: that is null.
func DecodedValue(s string) any {
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var v any
	_ = d.Decode(&v) // what is no value is null
	return v
}

func sortedNames(m map[string]any) (names []string) {
	for _, name := range []string{"new", "a/b", "a~b", "~1", "", `q"`, "é"} {
		if _, ok := m[name]; ok {
			names = append(names, name)
		}
	}
	b, _ := json.Marshal(m) // in order
	for name := range jsonscan.Members(b) {
		var s string
		if json.Unmarshal(name, &s) == nil {
			names = append(names, s)
		}
	}
	return names
}

// Spelt writes a value in the order of names, or the other way round, and perhaps with white space.
func Spelt(t *rapid.T, v any) []byte {
	b := must.Get(json.Marshal(v))(t)
	switch rapid.IntRange(0, 3).Draw(t, "spelling") {
	case 0:
		var out bytes.Buffer
		_ = json.Indent(&out, b, " ", "\t") // it is JSON
		return out.Bytes()
	case 1:
		return Backwards(nil, b)
	default:
		return b
	}
}

// Backwards writes the members of all objects in the opposite order.
func Backwards(dst, b []byte) []byte {
	switch b[0] {
	case '{':
		var all [][]byte
		for name, value := range jsonscan.Members(b) {
			all = append(all, Backwards(append(append([]byte(nil), name...), ':'), value))
		}
		dst = append(dst, '{')
		for i := len(all) - 1; i >= 0; i-- {
			dst = append(dst, all[i]...)
			if i > 0 {
				dst = append(dst, ',')
			}
		}
		return append(dst, '}')
	case '[':
		dst = append(dst, '[')
		for e := range jsonscan.Elements(b) {
			if dst[len(dst)-1] != '[' {
				dst = append(dst, ',')
			}
			dst = Backwards(dst, e)
		}
		return append(dst, ']')
	default:
		return append(dst, b...)
	}
}
