// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// is returns what finds a state before.
func is(object string) func() []byte { return func() []byte { return []byte(object) } }

func unknown() []byte { return nil }

func TestExpression_sees_the_state_before(t *testing.T) {
	before := is(`{"spec":{"replicas":2,"paused":false,"none":null},"metadata":{"labels":{"a":"b"}}}`)
	for _, c := range []struct {
		op   source.Op
		s    string
		want bool
	}{
		{source.Updated, `object.spec.replicas != oldObject.spec.replicas`, true},
		{source.Updated, `object.spec.paused == oldObject.spec.paused`, true},
		{source.Updated, `oldObject == null`, false},
		{source.Updated, `has(oldObject.spec)`, true},
		{source.Updated, `has(oldObject.status)`, false},
		{source.Updated, `object.spec == oldObject.spec`, false},
		{source.Updated, `oldObject.spec == {"replicas": 2, "paused": false, "none": null}`, true},
		{source.Updated, `oldObject == object`, false},
		{source.Updated, `type(oldObject) == map`, true},
		{source.Updated, `oldObject.?metadata.labels["a"].orValue("") == "b"`, true},
		{source.Added, `oldObject == null`, true},
		{source.Added, `null == oldObject`, true},
		{source.Added, `oldObject != null && oldObject.spec.replicas == 2`, false},
		{source.Added, `has(oldObject.spec)`, false},
		{source.Added, `has(oldObject.spec) && oldObject.spec.replicas == 2`, false},
		{source.Added, `oldObject.?spec.replicas.orValue(0) == 0`, true},
		{source.Deleted, `oldObject.spec.replicas == 2 && object.spec.replicas == 3`, true},
	} {
		e := expression(t, c.s)
		assert.Equal(t, c.want, must.Get(e.Eval(change(c.op, web), before))(t), "%v: %s", c.op, c.s)
		assert.True(t, e.Old(), "%s does not say that it needs the state before", c.s)
	}
}

// What does not depend on a state that is not known can be decided.
func TestExpression_cannot_be_evaluated_where_it_depends_on_a_state_that_is_not_known(t *testing.T) {
	for s, decides := range map[string]bool{
		`oldObject == null`:                                      false,
		`has(oldObject.spec)`:                                    false,
		`oldObject.spec != object.spec`:                          false,
		`event.operation == "updated" || oldObject.spec.x`:       true,
		`oldObject.spec.x || event.operation == "updated"`:       true,
		`event.operation == "deleted" && oldObject.spec.x`:       true,
		`event.operation == "updated" && oldObject.spec.x`:       false,
		`(object.spec.replicas > 2 ? 1 : oldObject.spec.x) == 1`: true,
	} {
		for name, old := range map[string]func() []byte{"unknown": unknown, "not kept": nil} {
			_, err := expression(t, s).Eval(change(source.Updated, web), old)
			assert.True(t, (err == nil) == decides &&
				(err == nil || strings.HasSuffix(err.Error(), ": oldObject is not known")), "%s, %s: %v", s, name, err)
		}
	}
}

func TestExpression_asks_for_the_state_before_once_and_only_where_it_needs_it(t *testing.T) {
	for s, want := range map[string]int{
		`object.spec.replicas == 3 || oldObject.spec.replicas == 3`:    0,
		`[1, 2, 3].all(x, oldObject.spec.replicas == 3)`:               1,
		`oldObject.spec.replicas == 3 && oldObject.spec.ratio == 0.5`:  1,
		`object.spec.containers.all(c, c.name != oldObject.kind + "")`: 1,
	} {
		asked := 0
		_, err := expression(t, s).Eval(change(source.Updated, web), func() []byte { asked++; return []byte(web) })
		assert.True(t, err == nil && asked == want, "%s asked %d times, want %d (%v)", s, asked, want, err)
	}
	assert.False(t, expression(t, `object.oldObject == 1 || "oldObject" in object`).Old(),
		"a member of that name is taken for the state before")
}

func TestFilter_hands_the_state_before_to_the_expression(t *testing.T) {
	f := New(Config{Expression: expression(t, `object.spec != oldObject.spec`)})
	for old, want := range map[string]string{`{"spec":1}`: Excluded, `{"spec":2}`: ""} {
		reason, _, err := f.Filter(change(source.Updated, `{"spec":1}`), [16]byte{}, is(old))
		assert.True(t, reason == want && err == nil, "%s: %q, %v", old, reason, err)
	}
	reason, _, err := f.Filter(change(source.Updated, `{"spec":1}`), [16]byte{}, unknown)
	assert.True(t, reason == "" && err != nil, "%q, %v", reason, err)
}

// What both states have to be read for is bounded by both.
func TestExpression_reads_no_more_of_a_large_state_before_than_is_allowed(t *testing.T) {
	large := `{"l":[0` + strings.Repeat(",0", 5000) + `],"data":{` + strings.Repeat(`"k":"",`, 50_000) + `"z":""}}`
	e := expression(t, `oldObject.l.all(x, oldObject.data["z"] == "")`)
	_, err := e.Eval(change(source.Updated, `{}`), is(large))
	assert.True(t, err != nil && strings.Contains(err.Error(), "actual cost limit exceeded"), "%v", err)
	yes, err := expression(t, `oldObject.l.all(x, x == 0)`).Eval(change(source.Updated, `{}`), is(large))
	assert.True(t, yes && err == nil, "%v, %v", yes, err)
}

func BenchmarkExpression_oldObject(b *testing.B) {
	pod := must.Get(os.ReadFile("../../encode/testdata/pod.json"))(b)
	e, c, old := expression(b, `object.status.phase != oldObject.status.phase`), change(source.Updated, string(pod)),
		func() []byte { return pod }
	b.ReportAllocs()
	for b.Loop() {
		must.Get(e.Eval(c, old))(b)
	}
}
