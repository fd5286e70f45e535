// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

func path(t testing.TB, s string) jsonscan.Path {
	t.Helper()
	return must.Get(jsonscan.ParsePath(s))(t)
}

func change(op source.Op, object string) *source.Change {
	return &source.Change{Op: op, Body: source.NewBody([]byte(object))}
}

func TestNew_returns_nothing_where_everything_is_published(t *testing.T) {
	if New(Config{}) != nil || New(Config{Operations: []source.Op{source.Deleted, source.Updated, source.Added}}) != nil {
		t.Error("there is a filter for nothing")
	}
}

func TestFilter_lets_through_the_operations_that_are_asked_for(t *testing.T) {
	all := []source.Op{source.Added, source.Updated, source.Deleted}
	for _, asked := range [][]source.Op{
		{source.Added},
		{source.Updated},
		{source.Deleted},
		{source.Added, source.Deleted},
	} {
		f := New(Config{Operations: asked})
		for _, op := range all {
			reason, now, _ := f.Filter(&source.Change{Op: op}, [16]byte{}, nil)
			through := false
			for _, a := range asked {
				through = through || a == op
			}
			assert.True(t, (reason == "") == through && (reason == "" || reason == Operation) && now == [16]byte{},
				"of %v, %v is %q", asked, op, reason)
		}
	}
}

func TestFilter_holds_back_an_update_in_which_only_what_is_ignored_is_different(t *testing.T) {
	f := New(Config{IgnoreChanges: []jsonscan.Path{path(t, "status")}})
	_, added, _ := f.Filter(change(source.Added, `{"metadata":{"resourceVersion":"1"},"spec":1}`), [16]byte{}, nil)
	same := `{"metadata":{"resourceVersion":"2"},"spec":1,"status":{"x":1}}`
	for _, c := range []struct {
		op     source.Op
		object string
		before [16]byte
		want   string
	}{
		{source.Updated, same, added, Unchanged},
		{source.Updated, same, [16]byte{}, ""},
		{source.Updated, `{"spec":2}`, added, ""},
		{source.Updated, `{`, [16]byte{}, ""},
		{source.Added, same, added, ""},
		{source.Deleted, same, added, ""},
	} {
		reason, _, _ := f.Filter(change(c.op, c.object), c.before, nil)
		assert.Equal(t, c.want, reason, "%v of %s", c.op, c.object)
	}
	_, now, _ := f.Filter(&source.Change{Op: source.Deleted}, added, nil)
	assert.Equal(t, [16]byte{}, now, "what is gone has a digest")
}

// An addition that is not published is what an update is compared with.
func TestFilter_digests_what_it_holds_back(t *testing.T) {
	f := New(Config{Operations: []source.Op{source.Updated}, IgnoreChanges: []jsonscan.Path{path(t, "status")}})
	reason, now, _ := f.Filter(change(source.Added, `{"spec":1}`), [16]byte{}, nil)
	assert.Equal(t, Operation, reason)
	assert.NotEqual(t, [16]byte{}, now)
}

func TestFilter_digests_under_its_key(t *testing.T) {
	var all [][16]byte
	for _, key := range []string{"", "a", "b"} {
		c := Config{IgnoreChanges: []jsonscan.Path{path(t, "metadata.labels")}}
		if key != "" {
			c.DigestKey = []byte(key)
		}
		_, now, _ := New(c).Filter(change(source.Added, `{"spec":1}`), [16]byte{}, nil)
		all = append(all, now)
	}
	assert.NotEqual(t, all[1], all[0], "%x", all)
	assert.NotEqual(t, all[2], all[1], "%x", all)
}

func TestFilter_that_cannot_be_evaluated_publishes_or_drops(t *testing.T) {
	c := change(source.Updated, `{"metadata":{}}`)
	for drops, want := range map[bool]string{false: "", true: Failed} {
		f := New(Config{Expression: expression(t, `object.metadata.labels.export == "true"`), DropErrors: drops})
		reason, _, err := f.Filter(c, [16]byte{}, nil)
		assert.Equal(t, want, reason)
		assert.ErrorIs(t, err, errEvaluation)
	}
}

// What the expression has left out is nothing that the log has, and a change of what is ignored may be what it waits
// for.
func TestFilter_compares_no_update_with_what_the_expression_left_out(t *testing.T) {
	f := New(Config{
		Expression:    expression(t, `object.status.phase == "Running"`),
		IgnoreChanges: []jsonscan.Path{path(t, "status")},
	})
	var before [16]byte
	for _, c := range []struct {
		op           source.Op
		object, want string
	}{
		{source.Added, `{"spec":1,"status":{"phase":"Pending"}}`, Excluded},
		{source.Updated, `{"spec":1,"status":{"phase":"Starting"}}`, Excluded},
		{source.Updated, `{"spec":1,"status":{"phase":"Running"}}`, ""},
		{source.Updated, `{"spec":1,"status":{"phase":"Running","x":1}}`, Unchanged},
		{source.Updated, `{"spec":2,"status":{"phase":"Failed"}}`, Excluded},
		{source.Updated, `{"spec":2,"status":{"phase":"Running"}}`, ""},
	} {
		reason, now, err := f.Filter(change(c.op, c.object), before, nil)
		assert.Equal(t, c.want, reason, c.object)
		assert.NoError(t, err, c.object)
		before = now
	}
}

func TestFilter_asks_the_expression_last_and_publishes_what_that_cannot_decide(t *testing.T) {
	f := New(Config{Operations: []source.Op{source.Updated}, Expression: expression(t, "object.spec > 1")})
	for _, c := range []struct {
		op     source.Op
		object string
		want   string
		fails  bool
	}{
		{source.Added, `{"spec":"x"}`, Operation, false},
		{source.Updated, `{"spec":2}`, "", false},
		{source.Updated, `{"spec":1}`, Excluded, false},
		{source.Updated, `{}`, "", true},
	} {
		if reason, _, err := f.Filter(change(c.op, c.object), [16]byte{}, nil); reason != c.want || (err != nil) != c.fails {
			t.Errorf("%v of %s is %q, %v, want %q", c.op, c.object, reason, err, c.want)
		}
	}
}

func BenchmarkFilter_operations(b *testing.B) {
	f, c := New(Config{Operations: []source.Op{source.Added}}), change(source.Updated, `{"spec":1}`)
	b.ReportAllocs()
	for b.Loop() {
		_, _, _ = f.Filter(c, [16]byte{}, nil)
	}
}
