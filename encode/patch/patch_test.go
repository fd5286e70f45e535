// SPDX-License-Identifier: Apache-2.0

package patch

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan/jsonscantest"
	"github.com/kube-eventbridge/kube-eventbridge/encode/patch/patchtest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// checkPatches checks that both patches, where there are any, make a become b.
func checkPatches(t testing.TB, a, b []byte) (merged, patched bool) {
	t.Helper()
	want := patchtest.Decoded(t, b)
	prefix := []byte("before")
	merge, merged := AppendMerge(prefix, a, b)
	if merged {
		merge = bytes.TrimPrefix(merge, prefix)
		got := patchtest.Merge(patchtest.Decoded(t, a), patchtest.Decoded(t, merge))
		require.Equal(t, want, got, "%s\nand %s\ngive %v\nwant %s", a, merge, got, b)
		assert.LessOrEqual(t, len(merge), len(b)+1, "bytes for %d", len(b))
	}
	ops, patched := AppendJSON(prefix, a, b)
	if patched {
		ops = bytes.TrimPrefix(ops, prefix)
		list, _ := patchtest.Decoded(t, ops).([]any)
		require.Equal(t, want, must.Get(patchtest.Apply(patchtest.Decoded(t, a), list))(t),
			"%s\nand %s\ngive, \nwant %s", a, ops, b)
		assert.LessOrEqual(t, len(ops), len(b)+1, "bytes for %d", len(b))
	}
	return merged, patched
}

func TestPatches_of_any_two_objects_lead_from_one_to_the_other(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		o := jsonscantest.Objects{T: r, White: rapid.Bool().Draw(r, "white"), Repeat: rapid.Bool().Draw(r, "repeat")}
		a := []byte(o.Object(4))
		b := []byte(o.Object(4))
		if rapid.IntRange(0, 3).Draw(r, "unrelated") > 0 {
			b = patchtest.Spelt(r, patchtest.Mutated(o, patchtest.Decoded(t, a), 4))
		}
		checkPatches(t, a, b)
	})
}

// A real object changed at random has patches, unless almost all of it changed, or a merge patch would have to say
// null.
func TestPatches_of_real_objects_lead_from_one_state_to_the_next(t *testing.T) {
	for _, file := range []string{"pod.json", "customresource.json", "node.json", "secret.json"} {
		t.Run(file, func(t *testing.T) {
			real := must.Get(os.ReadFile("../testdata/" + file))(t)
			merges, patches := 0, 0
			rapid.Check(t, func(r *rapid.T) {
				a, o := real, jsonscantest.Objects{T: r}
				for range 3 {
					b := patchtest.Spelt(r, patchtest.Mutated(o, patchtest.Decoded(t, a), 3))
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
		{
			`{"a":["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","c"]`,
			`{"a":["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","b","c"]`,
			`{"a":["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","b","c"]}`, `[{"op":"add","path":"/a/1","value":"b"}]`,
		},
		{
			`{"m":{"a/b":1,"a~b":"0123456789012345678901234567890123456789","a~1b":"0123456789012345678901234567890123456789"}`,
			`{"m":{"a/b":1,"a~b":"0123456789012345678901234567890123456789","a~1b":2}`, `{"m":{"a~1b":2}}`,
			`[{"op":"replace","path":"/m/a~01b","value":2}]`,
		},
		{`{"q\"":1`, `{"\u0071\"":2`, `{"\u0071\"":2}`, `[{"op":"replace","path":"/q\"","value":2}]`},
		{`{"a":1,"a":1`, `{"a":2`, ``, ``},
		{`{"x":{"a":1,"a":1},"y":1`, `{"x":{"a":2},"y":1`, ``, `[{"op":"replace","path":"/x","value":{"a":2}}]`},
		{`{"\ud800":1`, `{"\ud800":2`, ``, ``},
	} {
		a, b := []byte(c.a+fill), []byte(c.b+fill)
		merge, ok := AppendMerge(nil, a, b)
		assert.Equal(t, c.merge, string(merge), "%s → %s: merge patch %s", c.a, c.b, merge)
		assert.Equal(t, (c.merge != ""), ok, "%s → %s: merge patch %s", c.a, c.b, merge)
		patch, ok := AppendJSON(nil, a, b)
		assert.Equal(t, c.patch, string(patch), "%s → %s: JSON patch %s", c.a, c.b, patch)
		assert.Equal(t, (c.patch != ""), ok, "%s → %s: JSON patch %s", c.a, c.b, patch)
	}
}

func TestPatches_that_are_no_shorter_than_the_object_are_none(t *testing.T) {
	for _, c := range [][2]string{
		{`{"a":1}`, `{"a":2}`},
		{`{"aaaaaaaaa":1,"bbbbbbbbbb":2}`, `{}`},
		{`[1]`, `[2]`},
		{``, `{}`},
		{`{}`, ``},
	} {
		a, b := []byte(c[0]), []byte(c[1])
		patch, ok := AppendMerge(nil, a, b)
		assert.False(t, ok, "%s: %s", c, patch)
		patch, ok = AppendJSON(nil, a, b)
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
		if !jsontext.Value(a).IsValid() || !jsontext.Value(b).IsValid() {
			AppendMerge(nil, a, b)
			AppendJSON(nil, a, b)
			return
		}
		checkPatches(t, a, b)
	})
}
