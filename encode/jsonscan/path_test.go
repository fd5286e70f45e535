// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func path(t testing.TB, s string) Path {
	t.Helper()
	return must.Get(ParsePath(s))(t)
}

func TestParsePath_refuses_what_it_does_not_understand_and_says_where(t *testing.T) {
	const valid = `; write names with dots between, ["a name"] around one with other characters than letters, digits, _ ` +
		`and -, and [*] for every element, as in spec.containers[*].env[*].value`
	for s, want := range map[string]string{
		"":                "a name is missing at character 1",
		".":               "a name is missing at character 2",
		"spec.":           "a name is missing at character 6",
		"spec..x":         "a name does not begin like this at character 6",
		"spec.*":          "a name does not begin like this at character 6",
		"spec.[*]":        "a name does not begin like this at character 6",
		"{.spec}":         "a name does not begin like this at character 1",
		"größe":           "a name does not go on like this at character 3",
		`a["größe"]/`:     "a name does not go on like this at character 11",
		"spec x":          "a name does not go on like this at character 5",
		"a[*]b":           "a name does not go on like this at character 5",
		"a.example.com/x": "a name does not go on like this at character 14",
		`a.example\.com`:  "a name does not go on like this at character 10",
		"spec.list.0.value": `0 is no place in a list: write [*] for all elements, or ["0"] for a member of that ` +
			`name, at character 11`,
		"spec[0]":                 "a bracket has neither a name in quotes nor * at character 5",
		"spec[":                   "a bracket has neither a name in quotes nor * at character 5",
		"spec[]":                  "a bracket has neither a name in quotes nor * at character 5",
		`spec["a`:                 "a bracket is not closed at character 5",
		`spec["a'].x`:             "a bracket is not closed at character 5",
		`spec[""]`:                "a name is empty at character 5",
		"$":                       "it begins with $",
		"$.spec.containers":       "it begins with $",
		"$[*]":                    "it begins with $",
		"object":                  "it begins with object",
		"object.data.key":         "it begins with object",
		".object[*]":              "it begins with object",
		`oldObject["data"].key`:   "it begins with oldObject",
		"event.operation":         "it begins with event",
		strings.Repeat("[*]", 65): "it is deeper than 64 steps at character 193",
	} {
		_, err := ParsePath(s)
		end := want + valid
		if strings.HasPrefix(want, "it begins with") {
			end = want + "; paths begin at the object, so leave that out, as in spec.containers[*].image"
		}
		assert.True(t, err != nil && strings.HasSuffix(err.Error(), end) && strings.HasPrefix(err.Error(), `path "`),
			"%q: got %v, want %s", s, err, want)
	}
}

func TestPath_is_the_same_however_it_is_written(t *testing.T) {
	for a, b := range map[string]string{
		"spec.x":      `.spec["x"]`,
		"a[*].b":      `['a'][*]["b"]`,
		`a["b.c/d"]`:  `a['b.c/d']`,
		`a["it's"]`:   `["a"]["it's"]`,
		"x-y_z.$ref0": `x-y_z["$ref0"]`,
		"objects.x":   `["objects"].x`,
		"spec.object": `spec["object"]`,
		`["object"]`:  `['object']`,
	} {
		p, q := path(t, a), path(t, b)
		assert.True(t, p.Key() == q.Key() && p.String() == a, "%s is not %s", p, q)
	}
	assert.NotEqual(t, path(t, "a[*]").Key(), path(t, `a["*"]`).Key(), "every element is one whose name is *")
}

func TestBeyond_says_how_to_name_a_text_in_a_map_of_texts(t *testing.T) {
	for _, c := range []struct {
		path      string
		configMap bool
		want      string
	}{
		{"metadata.annotations.example.com", false, `metadata.annotations["example.com"]`},
		{`metadata.labels["a/b"].c`, false, `metadata.labels["a/b.c"]`},
		{"metadata.annotations[*].x", false, "metadata.annotations[*]"},
		{"metadata.annotations.token", false, ""},
		{"metadata.annotations", false, ""},
		{"metadata.ownerReferences.name", false, ""},
		{"data.application.yaml", true, `data["application.yaml"]`},
		{"data.application.yaml", false, ""},
		{"binaryData.a.b.c", true, `binaryData["a.b.c"]`},
		{"data[*]", true, ""},
		{"data[*].x", true, "data[*]"},
		{"data", true, ""},
		{"spec.data.x", true, ""},
	} {
		assert.Equal(t, c.want, path(t, c.path).Beyond(c.configMap), c.path)
	}
}

func TestPath_begins_with_a_member_of_the_object(t *testing.T) {
	for s, want := range map[string]string{"spec.x": "spec", `.["a b"][*]`: "a b", "[*].x": ""} {
		assert.Equal(t, want, path(t, s).First(), s)
	}
	assert.Empty(t, (Path{}).First(), "no path")
}
