// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

func expression(t testing.TB, s string) *Expression {
	t.Helper()
	return must.Get(ParseExpression(s))(t)
}

const web = `{"kind":"Deployment","metadata":{"name":"web","labels":{"app":"shop","a\u002fb":"x"},"generation":3},` +
	`"spec":{"replicas":3,"ratio":0.5,"paused":false,"none":null,"containers":[{"name":"a","image":"nginx:1","env":[]},{"name":"b","image":"redis"}]},"status":{}}`

func TestExpression_decides_by_object_and_event(t *testing.T) {
	c := change(source.Updated, web)
	c.Ident, c.Reason = source.Ident{Namespace: "shop", Name: "web", UID: "u", ResourceVersion: "7"}, source.ReasonRelist
	for s, want := range map[string]bool{
		`true`:                           true,
		`object.spec.replicas > 3`:       false,
		`object.spec.replicas >= 3`:      true,
		`object.spec.replicas == 3.0`:    true,
		`object.spec.ratio < 1`:          true,
		`object.spec.paused == true`:     false,
		`object.spec.none == null`:       true,
		`object.kind == "Deployment"`:    true,
		`object["kind"] == "Deployment"`: true,
		`has(object.spec.replicas)`:      true,
		`has(object.spec.none)`:          true,
		`has(object.spec.strategy)`:      false,
		`has(object.metadata.annotations) && object.metadata.annotations["x"] == "y"`: false,
		`"app" in object.metadata.labels`:                                             true,
		`"a/b" in object.metadata.labels`:                                             true,
		`object.metadata.labels["a/b"] == "x"`:                                        true,
		`"b" in object.metadata.labels`:                                               false,
		`object.?metadata.?annotations["x"].orValue("") == ""`:                        true,
		`object.spec.containers.exists(c, c.image.startsWith("nginx"))`:               true,
		`object.spec.containers.all(c, has(c.env))`:                                   false,
		`object.spec.containers[1].name == "b" && size(object.spec.containers) == 2`:  true,
		`object.spec.containers.map(c, c.name) == ["a", "b"]`:                         true,
		`object.metadata.labels == {"app": "shop", "a/b": "x"}`:                       true,
		`object.metadata.labels.all(k, k in ["app", "a/b"])`:                          true,
		`size(object.status) == 0 && object.status == {}`:                             true,
		`object.metadata.labels.app.matches("^s.*p$")`:                                true,
		`type(object.spec) == map`:                                                    true,
		`event.operation == "updated" && event.reason == "relist"`:                    true,
		`event.namespace + "/" + event.name == "shop/web"`:                            true,
		`event.objectuid == "u" && event.resourceversion == "7"`:                      true,
		`event.namespace.startsWith("kube-")`:                                         false,
	} {
		got, err := expression(t, s).Eval(c, nil)
		assert.True(t, err == nil && got == want, "%s is %t, want %t (%v)", s, got, want, err)
	}
}

func TestExpression_is_for_what_only_the_identity_is_known_of(t *testing.T) {
	yes, err := expression(t, "false").Eval(&source.Change{Op: source.Deleted}, nil)
	assert.True(t, yes && err == nil, "it is %t, %v", yes, err)
}

// An API server writes no member twice. If one does, the filter decides on the value that a consumer reads.
func TestEval_takes_the_last_of_members_that_repeat(t *testing.T) {
	c := change(source.Updated, `{"a":1,"b":[1],"a":2,"b":[2],"c":{"d":1,"d":2}}`)
	for _, s := range []string{"object.a == 2", "object.b[0] == 2", "object.c == {'d': 2}", "object.c.d == 2"} {
		assert.True(t, must.Get(expression(t, s).Eval(c, nil))(t), s)
	}
}

func TestParseExpression_refuses_what_cannot_decide_and_says_where(t *testing.T) {
	const valid = `; write one over object, oldObject, event.operation, event.reason, event.namespace, event.name, ` +
		`event.objectuid, event.resourceversion, such as event.operation == "deleted" || has(object.spec.replicas) && object.spec.replicas > 3`
	for s, want := range map[string]string{
		`object.spec.`: "is no expression of CEL that decides: at 1:13, Syntax error: " +
			"no viable alternative at input '.'" + valid,
		`objekt.spec == 1`: "is no expression of CEL that decides: at 1:1, undeclared " +
			"reference to 'objekt'" + valid,
		"true &&\n  event.op == \"x\"": "is no expression of CEL that decides: at 2:3, event has no op" +
			valid,
		`event.name == "a" && event.foo.x`: "is no expression of CEL that decides: at 1:22, event has no foo" + valid,
		`event == "added"`: "is no expression of CEL that decides: at 1:1, event alone is " +
			"no value" + valid,
		`has(event.foo)`: "is no expression of CEL that decides: at 1:5, event alone is " +
			"no value" + valid,
		`object.l.all(event, event.x == 1) || event.y == 1`: "is no expression of CEL that decides: at 1:38, event has no y" +
			valid,
		`.spec.replicas > 3`: "is no expression of CEL that decides: at 1:2, a path begins " +
			"with object: object.spec" + valid,
		`object.spec.replicas`: "is no expression of CEL that decides: at 1:1, it gives dyn, " +
			"not bool: compare it with something" + valid,
		`1 + 1`: "is no expression of CEL that decides: at 1:1, it gives int, " +
			"not bool: compare it with something" + valid,
		`event.name > 1`: "is no expression of CEL that decides: at 1:12, found no " +
			"matching overload for '_>_' applied to '(string, int)'" + valid,
		`object.metadata.name.matches("(")`: "is no expression of CEL that decides: at 1:1, error parsing " +
			"regexp: missing closing ): `(`" + valid,
		`oldObjekt.spec != object.spec`: "is no expression of CEL that decides: at 1:1, undeclared " +
			"reference to 'oldObjekt'" + valid,
		strings.Repeat(" ", 16<<10) +
			"true": "is longer than 16384 bytes; use labelSelector, fieldSelector or several resources for a part of it",
	} {
		_, err := ParseExpression(s)
		assert.True(t, err != nil && err.Error() == want, "%.40q: got\n%v, want\n%s", s, err, want)
	}
}

func TestParseExpression_refuses_a_text_that_a_field_never_is(t *testing.T) {
	const operations, reasons = "; valid: added, updated, deleted",
		"; valid: watch, snapshot, relist, recovered, repair, resync, deselected"
	for s, want := range map[string]string{
		`event.operation == "delete"`: `compares event.operation, at 1:20, with "delete", which ` +
			`it never is` + operations,
		`object.spec.x == 1 || "create" != event.operation`: `compares event.operation, at 1:23, with "create", which ` +
			`it never is` + operations,
		`event.operation in ["added", "changed"]`: `compares event.operation, at 1:20, with "changed", which ` +
			`it never is` + operations,
		`[1].all(x, event.reason == "list")`: `compares event.reason, at 1:28, with "list", which it ` +
			`never is` + reasons,
		`event.operation == event.reason`:                      "",
		`event.operation == "added"`:                           "",
		`event.operation in ["added", "deleted"]`:              "",
		`event.reason != "relist" && event.name == "anything"`: "",
	} {
		_, err := ParseExpression(s)
		if got := ""; err != nil || want != "" {
			if err != nil {
				got = err.Error()
			}
			assert.Equal(t, want, got, s)
		}
	}
}

func TestExpression_that_fails_says_where_and_shows_no_value(t *testing.T) {
	const secret = "CANARY-5ce9"
	c := change(source.Updated, `{"data":{"x":"`+secret+`","n":1},"l":[`+strings.Repeat(`1,`, 999)+`1]}`)
	for s, want := range map[string]string{
		`object.spec.replicas > 3`:                                     ": no such key",
		`object[object.data.x] == 1`:                                   ": no such key",
		`int(object.data.x) == 1`:                                      "",
		`timestamp(object.data.x) > timestamp("2026-01-01T00:00:00Z")`: "",
		`object.data.x > 1`:                                            ": no such overload",
		`object.l[5000] == 1`:                                          ": index out of bounds",
		`1 / (object.data.n - 1) == 1`:                                 ": division by zero",
		`object.l.all(a, object.l.all(b, a == b))`:                     ": actual cost limit exceeded",
	} {
		_, err := expression(t, s).Eval(c, nil)
		// And nothing of CEL's own words.
		exactly := regexp.MustCompile(`^the expression cannot be evaluated( at 1:\d+)?` + want + "$")
		assert.True(t, errors.Is(err, errEvaluation) && exactly.MatchString(err.Error()) &&
			!strings.Contains(err.Error(), secret), "%s: got %v, want it to end in %q", s, err, want)
	}
}

// Whatever is no JSON ends with an answer, or an error.
func FuzzExpression(f *testing.F) {
	e := expression(f,
		`object.a == object.b && object.c.all(x, x.d == 1) && size(object) > 1 && object == {"a": 1} || object != oldObject`)
	for _, s := range []string{
		web, ``, `{`, `{"a"`, `{"a":`, `{"a":1,"b":1,"c":[{"d":1}]}`,
		`{"a":{"x":[1,{}]},"b":{"x":[1,{}]},"c":{"y":1}}`, `{"a":1e999,"b":-}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = e.Eval(change(source.Updated, string(b)), func() []byte { return b })
	})
}

func BenchmarkExpression(b *testing.B) {
	pod := must.Get(os.ReadFile("../../encode/testdata/pod.json"))(b)
	for name, s := range map[string]string{
		"event": `event.operation != "updated"`,
		"field": `object.spec.nodeName == "x"`,
		"has":   `has(object.metadata.labels) && "app" in object.metadata.labels && object.status.phase != "Running"`,
		"containers": `object.spec.containers.exists(c, c.image.startsWith("registry.example.com/")) && ` +
			`!object.metadata.namespace.startsWith("kube-")`,
		"conditions": `object.status.conditions.exists(c, c.type == "Ready" && c.status == "True")`,
	} {
		b.Run(name, func(b *testing.B) {
			e, c := expression(b, s), change(source.Updated, string(pod))
			b.ReportAllocs()
			for b.Loop() {
				must.Get(e.Eval(c, nil))(b)
			}
		})
	}
}

// CEL's cost does not see how much is read for one step.
func TestExpression_reads_no_more_of_a_large_object_than_is_allowed(t *testing.T) {
	keys, numbers := strings.Builder{}, strings.Builder{}
	for i := range 5000 {
		fmt.Fprintf(&keys, `"k%d":"",`, i)
		fmt.Fprintf(&numbers, "%d,", i)
	}
	list := "[" + strings.TrimSuffix(numbers.String(), ",") + "]"
	large := `{"data":{` + strings.TrimSuffix(keys.String(), ",") + `},"spec":{"a":` + list + `,"b":` + list + `}}`
	for s, fails := range map[string]bool{
		`object.data.all(k, object.data[k] == "")`:         true,
		`object.spec.a.all(x, object.spec.b[0] == 0)`:      true,
		`object.spec.a.all(x, size(object.data) > 0)`:      true,
		`object.spec.a.all(x, x >= 0)`:                     false,
		`object.data.all(k, k.startsWith("k"))`:            false,
		`size(object.data) == 5000 && "k7" in object.data`: false,
	} {
		yes, err := expression(t, s).Eval(change(source.Updated, large), nil)
		assert.True(t, (err != nil) == fails && (fails || yes) &&
			(!fails || strings.Contains(err.Error(), "actual cost limit exceeded")), "%s: %v, %v", s, yes, err)
	}
}

// What becomes a list or a map costs more than what is passed over.
func TestExpression_makes_few_lists_and_maps_of_a_large_object(t *testing.T) {
	const few = `[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]`
	for s, object := range map[string]string{
		few + `.all(x, size(object.data) > 0)`: `{"data":{"k":"` + strings.Repeat("x", 1<<20) + `"}}`,
		few + `.all(x, object.s.list[0] == 0)`: `{"s":{"list":[0` + strings.Repeat(",0", 1<<19) + `]}}`,
	} {
		_, err := expression(t, s).Eval(change(source.Updated, object), nil)
		assert.True(t, err != nil && strings.Contains(err.Error(), "actual cost limit exceeded"), "%s: %v", s, err)
		once := strings.Replace(s, few, "[1]", 1)
		yes, err := expression(t, once).Eval(change(source.Updated, object), nil)
		assert.True(t, yes && err == nil, "%s: %v, %v", once, yes, err)
	}
}
