// SPDX-License-Identifier: Apache-2.0

package clean

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestDigest_differs_where_objects_do(t *testing.T) {
	texts := []string{
		`{}`, `a: 1`, `a: "1"`, `a: 1.5`, `a: true`, `a: "true"`, `a: [1]`, `a: [1, 2]`, `a: [2, 1]`, `a: [[1], 2]`, `a: {}`, `a: []`,
		`a: [null]`, `a: {b: 1, c: 2}`, `a: {b: 2, c: 1}`, `{a: {b: 1}, c: 2}`, `{a: 1, b: 1}`, `b: 1`, `metadata: {annotations: {a: b}}`,
		`metadata: {}`, `spec: {annotations: {kube-eventbridge.io/origin: x}}`, `metadata: {annotations: {}}`,
		`metadata: {labels: {kube-eventbridge.io/origin: x}}`, `metadata: {annotations: {kube-eventbridge.io/other: x}}`,
	}
	seen := map[uint64]string{}
	for _, text := range texts {
		d := Digest(decoded(t, text))
		assert.Empty(t, seen[d], text)
		seen[d] = text
	}
	for a, b := range map[string]string{
		`a: null`: `{}`,
		`metadata: {annotations: {kube-eventbridge.io/origin: x, kube-eventbridge.io/origin-uid: y, kube-eventbridge.io/origin-sequence: z, a: b}}`: `metadata: {annotations: {a: b}}`,
		`metadata: {annotations: {kube-eventbridge.io/origin-sequence: x}}`:                                                                         `metadata: {}`,
	} {
		assert.Equal(t, Digest(decoded(t, a)), Digest(decoded(t, b)), a)
	}
	assert.Equal(t, uint64(0xd6ca630f898fcfde), Digest(decoded(t, `{metadata: {name: a}, spec: {n: [1, x, null, true]}}`)),
		"it is the same in every process and version")
	one, same := map[string]any{"a": json.Number("1")}, map[string]any{"a": json.Number("1.0")}
	assert.NotEqual(t, Digest(one), Digest(same), "the text counts")
	assert.False(t, Covers(one, same), "the text counts")
}

func TestDigest_and_Covers_do_not_depend_on_the_order_of_members(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		object := map[string]any{"x": anything(4).Draw(t, "object")}
		other := inserted(t, object).(map[string]any)
		assert.Equal(t, Digest(object), Digest(other))
		assert.True(t, Covers(object, other))
		assert.Equal(t, Digest(object), Digest(Project(object, other)))
	})
}

// inserted returns a copy whose members were inserted in an order of their own, beside others that were removed again.
func inserted(t *rapid.T, v any) any {
	switch v := v.(type) {
	case map[string]any:
		c := map[string]any{}
		for i := range rapid.IntRange(0, 20).Draw(t, "others") {
			c[string(rune('A'+i))] = nil
		}
		for _, name := range rapid.Permutation(slices.Sorted(maps.Keys(v))).Draw(t, "order") {
			c[name] = inserted(t, v[name])
		}
		maps.DeleteFunc(c, func(name string, _ any) bool { _, has := v[name]; return !has })
		return c
	case []any:
		c := make([]any, len(v))
		for i := range v {
			c[i] = inserted(t, v[i])
		}
		return c
	default:
		return v
	}
}

func TestCovers_and_Project_are_about_the_fields_of_desired(t *testing.T) {
	for _, c := range []struct {
		desired, actual string
		covered         bool
		project         string
	}{
		{`{a: 1}`, `{a: 1, b: 2}`, true, `{a: 1}`},
		{`{a: 1}`, `{a: 1.5}`, false, `{a: 1.5}`},
		{`{a: 1}`, `{b: 1}`, false, `{}`},
		{`{a: null}`, `{b: 1}`, true, `{}`},
		{`{a: null}`, `{a: 1}`, false, `{a: 1}`},
		{`{a: {}}`, `{}`, false, `{}`},
		{`{a: {}}`, `{a: {b: 1}}`, true, `{a: {}}`},
		{`{a: {b: 1}}`, `{a: [b]}`, false, `{a: [b]}`},
		{`{a: {b: 1}}`, `{a: {b: 2, c: 3}}`, false, `{a: {b: 2}}`},
		{`{a: [{b: 1}, 2]}`, `{a: [{b: 1, c: 1}, 2]}`, true, `{a: [{b: 1}, 2]}`},
		{`{a: [{b: 1}]}`, `{a: [{b: 1, c: 1}, 2]}`, false, `{a: [{b: 1, c: 1}, 2]}`},
		{`{a: [1, 2]}`, `{a: [2, 1]}`, false, `{a: [2, 1]}`},
		{`{a: [1]}`, `{a: x}`, false, `{a: x}`},
		{`{a: x}`, `{a: [1]}`, false, `{a: [1]}`},
		{`{a: []}`, `{}`, false, `{}`},
	} {
		desired, actual := decoded(t, c.desired), decoded(t, c.actual)
		assert.Equal(t, c.covered, Covers(desired, actual), "%s in %s", c.desired, c.actual)
		assert.Equal(t, decoded(t, c.project), Project(desired, actual), "%s of %s", c.desired, c.actual)
	}
}
