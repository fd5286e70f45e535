// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func decoded(t testing.TB, text []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v), "%s", text)
	return v
}

// mergeAsRFC7386 is the function of section 2 of RFC 7386.
func mergeAsRFC7386(target, patch any) any {
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
			t[name] = mergeAsRFC7386(t[name], value)
		}
	}
	return t
}

// patchAsRFC6902 applies the operations add, remove and replace, and refuses what RFC 6902 calls an error.
func patchAsRFC6902(target any, patch []any) (any, error) {
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

// mutated changes some of what an object has.
func (o objects) mutated(v any, depth int) any {
	drop := func() bool { return rapid.IntRange(0, 9).Draw(o.t, "change") == 0 }
	fresh := func() any {
		if depth == 0 {
			return "x"
		}
		return decodedValue(o.value(depth - 1))
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range sortedNames(v) {
			if drop() {
				delete(v, name)
			} else {
				v[name] = o.mutated(v[name], depth-1)
			}
		}
		if drop() {
			v[rapid.SampledFrom([]string{"new", "a/b", "a~b", "~1", "", `q"`, "é"}).Draw(o.t, "name")] = fresh()
		}
		return v
	case []any:
		var out []any
		for _, e := range v {
			if drop() {
				out = append(out, fresh())
			}
			if !drop() {
				out = append(out, o.mutated(e, depth-1))
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

func decodedValue(s string) any {
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
	for name := range Members(b) {
		var s string
		if json.Unmarshal(name, &s) == nil {
			names = append(names, s)
		}
	}
	return names
}

// spelt writes a value in the order of names, or the other way round, and perhaps with white space.
func spelt(t *rapid.T, v any) []byte {
	b := must.Get(json.Marshal(v))(t)
	switch rapid.IntRange(0, 3).Draw(t, "spelling") {
	case 0:
		var out bytes.Buffer
		_ = json.Indent(&out, b, " ", "\t") // it is JSON
		return out.Bytes()
	case 1:
		return backwards(nil, b)
	default:
		return b
	}
}

// backwards writes the members of all objects in the opposite order.
func backwards(dst, b []byte) []byte {
	switch b[0] {
	case '{':
		var all [][]byte
		for name, value := range Members(b) {
			all = append(all, backwards(append(append([]byte(nil), name...), ':'), value))
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
		for e := range Elements(b) {
			if dst[len(dst)-1] != '[' {
				dst = append(dst, ',')
			}
			dst = backwards(dst, e)
		}
		return append(dst, ']')
	default:
		return append(dst, b...)
	}
}

// checkPatches checks that both patches, where there are any, make a become b.
func checkPatches(t testing.TB, a, b []byte) (merged, patched bool) {
	t.Helper()
	want := decoded(t, b)
	prefix := []byte("before")
	merge, merged := appendMergePatch(prefix, a, b)
	if merged {
		merge = bytes.TrimPrefix(merge, prefix)
		got := mergeAsRFC7386(decoded(t, a), decoded(t, merge))
		require.Equal(t, want, got, "%s\nand %s\ngive %v\nwant %s", a, merge, got, b)
		assert.LessOrEqual(t, len(merge), len(b)+1, "bytes for %d", len(b))
	}
	ops, patched := appendJSONPatch(prefix, a, b)
	if patched {
		ops = bytes.TrimPrefix(ops, prefix)
		list, _ := decoded(t, ops).([]any)
		require.Equal(t, want, must.Get(patchAsRFC6902(decoded(t, a), list))(t),
			"%s\nand %s\ngive, \nwant %s", a, ops, b)
		assert.LessOrEqual(t, len(ops), len(b)+1, "bytes for %d", len(b))
	}
	return merged, patched
}

func TestPatches_of_any_two_objects_lead_from_one_to_the_other(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		o := objects{t: r, white: rapid.Bool().Draw(r, "white"), repeat: rapid.Bool().Draw(r, "repeat")}
		a := []byte(o.object(4))
		b := []byte(o.object(4))
		if rapid.IntRange(0, 3).Draw(r, "unrelated") > 0 {
			b = spelt(r, o.mutated(decoded(t, a), 4))
		}
		checkPatches(t, a, b)
	})
}

// A real object changed at random has patches, unless almost all of it changed, or a merge patch would have to say
// null.
func TestPatches_of_real_objects_lead_from_one_state_to_the_next(t *testing.T) {
	for _, file := range []string{"pod.json", "customresource.json", "node.json", "secret.json"} {
		t.Run(file, func(t *testing.T) {
			real := must.Get(os.ReadFile("testdata/" + file))(t)
			merges, patches := 0, 0
			rapid.Check(t, func(r *rapid.T) {
				a, o := real, objects{t: r}
				for range 3 {
					b := spelt(r, o.mutated(decoded(t, a), 3))
					merged, patched := checkPatches(t, a, b)
					if merged {
						merges++
					}
					if patched {
						patches++
					}
					a = b
				}
			})
			assert.NotEqual(t, 0, merges, "merge patches and %d JSON patches were seen", patches)
			assert.NotEqual(t, 0, patches, "merge patches and %d JSON patches were seen", patches)
		})
	}
}

func TestPatches_say_no_more_than_what_changed(t *testing.T) {
	fill := `,"fill":"` + strings.Repeat("x", 200) + `"}`
	for _, c := range []struct{ a, b, merge, patch string }{
		{`{"a":1`, `{"a":1`, `{}`, `[]`},
		{`{"a":1`, `{"a":2`, `{"a":2}`, `[{"op":"replace","path":"/a","value":2}]`},
		{`{"a":1,"b":2`, `{"b":2,"a":1`, `{}`, `[]`},
		{`{"a":1,"b":2`, `{"b":2`, `{"a":null}`, `[{"op":"remove","path":"/a"}]`},
		{`{"a":{"x":1}`, `{"a":{}`, `{"a":{"x":null}}`, `[{"op":"remove","path":"/a/x"}]`},
		{`{"a":{"x":1}`, `{"a":{"x":1,"y":[null]}`, `{"a":{"y":[null]}}`, `[{"op":"add","path":"/a/y","value":[null]}]`},
		{`{"a":null,"b":1`, `{"a":null,"b":2`, `{"b":2}`, `[{"op":"replace","path":"/b","value":2}]`},
		{`{"a":1`, `{"a":null`, ``, `[{"op":"replace","path":"/a","value":null}]`},
		{`{"c":1`, `{"c":1,"a":{"b":{"x":null}}`, ``, `[{"op":"add","path":"/a","value":{"b":{"x":null}}}]`},
		{`{"c":1`, `{"c":1,"a":{"b":"null"}`, `{"a":{"b":"null"}}`, `[{"op":"add","path":"/a","value":{"b":"null"}}]`},
		{`{"a":[1,2,3,4,5,6,7,8,9]`, `{"a":[2,3,4,5,6,7,8,9]`, `{"a":[2,3,4,5,6,7,8,9]}`, `[{"op":"remove","path":"/a/0"}]`},
		{`{"a":["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","c"]`, `{"a":["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","b","c"]`, `{"a":["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","b","c"]}`, `[{"op":"add","path":"/a/1","value":"b"}]`},
		{`{"m":{"a/b":1,"a~b":"0123456789012345678901234567890123456789","a~1b":"0123456789012345678901234567890123456789"}`, `{"m":{"a/b":1,"a~b":"0123456789012345678901234567890123456789","a~1b":2}`, `{"m":{"a~1b":2}}`, `[{"op":"replace","path":"/m/a~01b","value":2}]`},
		{`{"q\"":1`, `{"\u0071\"":2`, `{"\u0071\"":2}`, `[{"op":"replace","path":"/q\"","value":2}]`},
		{`{"a":1,"a":1`, `{"a":2`, ``, ``},
		{`{"x":{"a":1,"a":1},"y":1`, `{"x":{"a":2},"y":1`, ``, `[{"op":"replace","path":"/x","value":{"a":2}}]`},
		{`{"\ud800":1`, `{"\ud800":2`, ``, ``},
	} {
		a, b := []byte(c.a+fill), []byte(c.b+fill)
		merge, ok := appendMergePatch(nil, a, b)
		assert.Equal(t, c.merge, string(merge), "%s → %s: merge patch %s", c.a, c.b, merge)
		assert.Equal(t, (c.merge != ""), ok, "%s → %s: merge patch %s", c.a, c.b, merge)
		patch, ok := appendJSONPatch(nil, a, b)
		assert.Equal(t, c.patch, string(patch), "%s → %s: JSON patch %s", c.a, c.b, patch)
		assert.Equal(t, (c.patch != ""), ok, "%s → %s: JSON patch %s", c.a, c.b, patch)
	}
}

func TestPatches_that_are_no_shorter_than_the_object_are_none(t *testing.T) {
	for _, c := range [][2]string{{`{"a":1}`, `{"a":2}`}, {`{"aaaaaaaaa":1,"bbbbbbbbbb":2}`, `{}`}, {`[1]`, `[2]`}, {``, `{}`}, {`{}`, ``}} {
		a, b := []byte(c[0]), []byte(c[1])
		patch, ok := appendMergePatch(nil, a, b)
		assert.False(t, ok, "%s: %s", c, patch)
		patch, ok = appendJSONPatch(nil, a, b)
		assert.False(t, ok, "%s: %s", c, patch)
	}
}

// Names that are all others would take a while if each was compared with each.
func TestPatches_of_many_members_take_no_square_of_the_time(t *testing.T) {
	var a, b bytes.Buffer
	const n = 100_000
	for i := range n {
		fmt.Fprintf(&a, `,"a%d":1`, i)
		fmt.Fprintf(&b, `,"b%d":1`, n-i)
	}
	x, y := append([]byte(`{"x":{"z":0`), a.Bytes()...), append([]byte(`{"x":{"z":1`), b.Bytes()...)
	x, y = append(x, "}}"...), append(y, "}}"...)
	merged, patched := checkPatches(t, x, y)
	assert.True(t, !merged && !patched, "a patch is shorter than what it replaces everything with")
}

func FuzzPatches(f *testing.F) {
	f.Add([]byte(`{"a":1}`), []byte(`{"a":{"b":[null,{"c":1}]}}`))
	f.Add([]byte(`{"a~/":[1,2]}`), []byte(`{"\u0061~/":[2]}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if !json.Valid(a) || !json.Valid(b) || !valid(a) || !valid(b) {
			appendMergePatch(nil, a, b)
			appendJSONPatch(nil, a, b)
			return
		}
		checkPatches(t, a, b)
	})
}
