// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/source"
)

func TestUnguarded_are_the_members_without_which_an_expression_fails(t *testing.T) {
	for s, want := range map[string]string{
		`object.spec.replicas > 3`:                                                                           "object.spec.replicas",
		`object.metadata.name == "a" && object.kind == "b"`:                                                  "",
		`has(object.spec.replicas) && object.spec.replicas > 3`:                                              "",
		`object.spec.replicas > 3 && has(object.spec.replicas)`:                                              "",
		`has(object.spec.replicas) || object.spec.replicas > 3`:                                              "object.spec.replicas",
		`!has(object.spec.replicas) || object.spec.replicas > 3`:                                             "",
		`has(object.spec.replicas) ? object.spec.replicas > 3 : false`:                                       "",
		`has(object.spec.replicas) ? true : object.spec.replicas > 3`:                                        "object.spec.replicas",
		`event.operation == "deleted" || object.spec.replicas > 3`:                                           "object.spec.replicas",
		`object.metadata.labels.app == "a"`:                                                                  "object.metadata.labels object.metadata.labels.app",
		`has(object.metadata.labels) && object.metadata.labels.app == "a"`:                                   "object.metadata.labels.app",
		`has(object.metadata.labels.app) && object.metadata.labels.app == "a"`:                               "object.metadata.labels",
		`has(object.metadata.labels) && "app" in object.metadata.labels`:                                     "",
		`has(object.metadata.labels) && "a" in object.metadata.labels && object.metadata.labels["a"] == "b"`: "",
		`object.?metadata.?labels["a"].orValue("") == "b"`:                                                   "",
		`object.metadata.?labels.?a.orValue("") == "b"`:                                                      "",
		`object.data.?a.orValue("") == "b"`:                                                                  "object.data",
		`object.status.conditions.exists(c, c.type == "a")`:                                                  "object.status object.status.conditions",
		`has(object.status) && has(object.status.l) && object.status.l.exists(c, c.type == "a")`:             "",
		`object.?spec.replicas.hasValue() && object.spec.replicas > 3`:                                       "",
		`object.?spec.replicas.value() > 3`:                                                                  "object.spec.replicas",
		`object.?a.?b.hasValue() && object.a.b == 1`:                                                         "",
		`object.?a.?b.hasValue() || object.?a.?b.value() == 1`:                                               "object.a object.a.b",
		`has(object.x.a.b) && object.x["a.b"] == 1`:                                                          `object.x object.x.a object.x["a.b"]`,
		`oldObject == null || object.spec != oldObject.spec`:                                                 "",
		`oldObject == null || object.spec.a != oldObject.spec.a`:                                             "object.spec.a oldObject.spec.a",
		`[object.a] == [1] || {"x": object.b} == {"x": 1}`:                                                   "object.a object.b",
		`size(object.a) > 0 && object.b.startsWith("c")`:                                                     "object.a object.b",
		`object.metadata.name.startsWith("c")`:                                                               "",
	} {
		e := expression(t, s)
		var got []string
		for _, m := range e.Unguarded() {
			got = append(got, m.String())
		}
		assert.Equal(t, want, strings.Join(got, " "), s)
		bare := `{"apiVersion":"v1","kind":"K","metadata":{"name":"n"},"spec":{}}`
		if want == "" {
			_, err := e.Eval(change(source.Updated, bare), func() []byte { return []byte(bare) })
			assert.NoError(t, err, s)
		}
	}
}

func TestMember_has_a_guard_that_is_an_expression(t *testing.T) {
	for s, want := range map[string]string{
		`object.data.a == "1"`: `has(object.data) has(object.data.a)`,
		`object.metadata.labels["example.com/app"] == "a"`: `has(object.metadata.labels) "example.com/app" in ` +
			`object.metadata.labels`,
		`object.data["a-b"].c == 1`: `has(object.data) "a-b" in object.data has(object.data["a-b"].c)`,
	} {
		var guards []string
		for _, m := range expression(t, s).Unguarded() {
			guards = append(guards, m.Guard())
		}
		assert.Equal(t, want, strings.Join(guards, " "), s)
		guarded := expression(t, strings.Join(guards, " && ")+" && "+s)
		assert.Empty(t, guarded.Unguarded(), s)
	}
}
