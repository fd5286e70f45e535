// SPDX-License-Identifier: Apache-2.0

package tail

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

func TestDecode_reads_both_modes_alike(t *testing.T) {
	binary := event(t, Updated, `{"a":1}`, map[string]string{"fieldmanager": "k é%", "sampledrate": "3"})
	line := must.Get(binary.AppendJSON(nil))(t)
	again, err := Decode(Message{Stored: sink.Stored{
		Sequence: 42, Data: line,
		ContentType: "Application/CloudEvents+JSON; charset=UTF-8",
	}})
	require.NoError(t, err)
	for _, e := range []*Event{binary, again} {
		if e.Op != Updated || e.Group != "apps" || e.Version != "v1" || e.Resource != "deployments" ||
			string(e.Data) != `{"a":1}` {
			t.Errorf("got %s of %s/%s %s with data %s", e.Op, e.Group, e.Version, e.Resource, e.Data)
		}
		assert.Equal(t, "k é%", e.Attr("fieldmanager"), "fieldmanager")
		assert.Equal(t, "3", e.Attr("sampledrate"), "sampledrate")
	}
	assert.Len(t, again.attributes, len(binary.attributes),
		"structured mode has %d attributes, binary mode", len(again.attributes))
}

func TestDecode_refuses_what_is_no_event(t *testing.T) {
	const structured = "application/cloudevents+json"
	for name, m := range map[string]sink.Stored{
		"nothing":                    {},
		"plain JSON":                 {Data: []byte(`{"type":"t","id":"i"}`)},
		"no id":                      {Attributes: []sink.Attribute{{Name: "type", Value: "t"}}},
		"structured, no JSON":        {ContentType: structured, Data: []byte(`{"type":`)},
		"structured, a list":         {ContentType: structured, Data: []byte(`[]`)},
		"structured, no type":        {ContentType: structured, Data: []byte(`{"id":"i"}`)},
		"structured, broken base 64": {ContentType: structured, Data: []byte(`{"id":"i","type":"t","data_base64":"%"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := Decode(Message{Stored: m})
			assert.ErrorIs(t, err, ErrNoEvent, "got %v", e)
		})
	}
}

func TestEvent_time_is_when_it_was_seen_else_when_it_happened_else_when_it_was_stored(t *testing.T) {
	happened := at.Add(-time.Second).Truncate(time.Second)
	for _, c := range []struct {
		with map[string]string
		want time.Time
	}{
		{nil, at},
		{map[string]string{"recordedtime": ""}, happened},
		{map[string]string{"recordedtime": "", "time": "yesterday"}, at},
	} {
		got := event(t, Added, `{}`, c.with).Time()
		assert.True(t, got.Equal(c.want), "%v: got %v, want %v", c.with, got, c.want)
	}
}

func TestAppendJSON_has_numbers_where_structured_mode_has_them(t *testing.T) {
	e := event(t, Updated, "{\n \"x\": 1}", map[string]string{"sampledrate": "3", "writerterm": "x"})
	line, err := e.AppendJSON(nil)
	require.NoError(t, err)
	for _, want := range []string{
		`{"specversion":"1.0","id":"u1.1795212000.7.0",`, `"sampledrate":3,`, `"writerterm":"x",`, `"resourceversion":"7",`,
		`,"data":{"x":1}}`,
	} {
		assert.Contains(t, string(line), want, "not in %s", line)
	}
	e.Data = []byte("not JSON\n")
	if line, err = e.AppendJSON(nil); err != nil || !strings.Contains(string(line), `,"data_base64":"bm90IEpTT04K"}`) {
		t.Errorf("got %s, %v", line, err)
	}
}

func TestAppendJSON_is_one_line_of_harmless_JSON_whatever_the_log_holds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Just("\x1b]0;owned\a\u009b31m\u202e\U000e0001\x7f"),
			rapid.StringOfN(rapid.Rune(), 1, 9, -1))
		value := text.Draw(t, "value")
		quoted, _ := json.Marshal(map[string]string{"v": value})
		as := []sink.Attribute{{Name: "id", Value: "i"}, {Name: "type", Value: "t"}, {Name: "name", Value: value}}
		e := must.Get(Decode(Message{Stored: sink.Stored{Attributes: as, Data: quoted}}))(t)
		line := must.Get(e.AppendJSON(nil))(t)
		require.True(t, printable(string(line)), "not printable: %q", line)
		var got struct{ Data struct{ V string } }
		err := json.Unmarshal(line, &got)
		require.NoError(t, err, "%v: %s", err, line)
		require.True(t, !utf8.ValidString(value) || got.Data.V == value, "got %q, want %q", got.Data.V, value)
	})
}

func TestPrintable_is_printable_and_leaves_printable_text_alone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		switch got := Printable(s); {
		case !printable(got):
			t.Fatalf("%q became %q", s, got)
		case printable(s) && got != s:
			t.Fatalf("%q was changed to %q", s, got)
		}
	})
}

func TestFilter(t *testing.T) {
	web := event(t, Updated, `{}`, nil)
	pod := event(t, Deleted, `{}`, map[string]string{
		"source": "/clusters/east/api/v1/pods", "kind": "Pod", "namespace": "kube-system", "name": "dns-0",
		"subject": "kube-system/dns-0",
	})
	gap := event(t, Gap, `{"namespace":"shop"}`, nil)
	wide := event(t, Gap, `{"namespace":""}`, nil)
	snapshot := event(t, SnapshotStarted, `{}`, nil)
	all := []*Event{web, pod, gap, wide, snapshot}
	for _, c := range []struct {
		name   string
		args   []string
		filter Filter
		shown  []*Event
	}{
		{"everything", nil, Filter{}, all},
		{"a plural", []string{"pods"}, Filter{}, []*Event{pod}},
		{"a kind", []string{"Pod"}, Filter{}, []*Event{pod}},
		{"a short name", []string{"po"}, Filter{}, []*Event{pod}},
		{"a group", []string{"deployments.apps"}, Filter{}, []*Event{web, gap, wide, snapshot}},
		{"a version and a group", []string{"deployments.v1.apps"}, Filter{}, []*Event{web, gap, wide, snapshot}},
		{"another version", []string{"deployments.v2.apps"}, Filter{}, nil},
		{"the core group", []string{"pods.v1", "deployments.v1"}, Filter{}, []*Event{pod}},
		{"another group", []string{"deployments.example.com"}, Filter{}, nil},
		{"a whole group", []string{"*.apps"}, Filter{}, []*Event{web, gap, wide, snapshot}},
		{"an object", []string{"pods/dns-*", "deploy/other"}, Filter{}, []*Event{pod, gap, wide}},
		{"a pipeline", nil, Filter{Pipelines: []string{"audit"}}, all},
		{"another pipeline", nil, Filter{Pipelines: []string{"other"}}, nil},
		{"a namespace", nil, Filter{Namespaces: []string{"kube-system"}}, []*Event{pod, wide, snapshot}},
		{"another namespace", nil, Filter{Namespaces: []string{"shop"}}, []*Event{web, gap, wide, snapshot}},
		{"a name", nil, Filter{Names: []string{"w?b"}}, []*Event{web, gap, wide}},
		{"operations", nil, Filter{Ops: []Op{Deleted}}, []*Event{pod, gap, wide}},
		{"snapshots", nil, Filter{Ops: []Op{SnapshotStarted}}, []*Event{gap, wide, snapshot}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, arg := range c.args {
				s := must.Get(ParseSelector(arg))(t)
				c.filter.Resources = append(c.filter.Resources, s)
			}
			for _, e := range all {
				want := false
				for _, s := range c.shown {
					want = want || s == e
				}
				assert.Equal(t, want, c.filter.Shows(e), "%s %s %s is shown", e.Op, e.Resource, e.Data)
			}
		})
	}
}

// The short names are those of run and rbac.
func TestParseSelector_knows_all_short_names_and_singulars(t *testing.T) {
	for arg, want := range map[string]string{
		"hpa": "horizontalpodautoscalers", "netpol": "networkpolicies", "hpa.autoscaling": "horizontalpodautoscalers",
		"pdb.v1.policy/a": "poddisruptionbudgets",
		"ingress":         "ingresses", "widget": "widget", "deploy.example.com": "deploy",
	} {
		assert.Equal(t, want, must.Get(ParseSelector(arg))(t).resource, arg)
	}
}

func TestParse_refuses_what_selects_nothing(t *testing.T) {
	for _, arg := range []string{"", ".apps", "pods/", "/web", "pods/[", "pods/a[", "pods/a/b", "pods/a/", "pods/a b"} {
		s, err := ParseSelector(arg)
		assert.Error(t, err, "%q was read as %+v", arg, s)
	}
	for _, name := range []string{"a[", "shop/web", "a b"} {
		_, err := ParseNames([]string{"web-*", name})
		assert.True(t, err != nil && strings.HasPrefix(err.Error(), `"`+name+`" `), "name %q: got %v", name, err)
	}
	assert.Len(t, must.Get(ParseNames([]string{"web-*", "a?[b-c]"}))(t), 2)
	ops, err := ParseOps([]string{"added", "modified"})
	assert.Error(t, err, "modified was read as %v", ops)
	assert.Len(t, must.Get(ParseOps([]string{"Added", "snapshot", "resync"}))(t), 5)
}

func published(op Op, data string, with map[string]string) *sink.Message {
	m := message(0, op, data, with)
	return &sink.Message{
		Subject: m.Subject, ID: "u1.1795212000.7.0", Attributes: m.Attributes, ContentType: m.ContentType, Data: m.Data,
	}
}

func TestLines_are_those_of_a_table_and_say_what_changed(t *testing.T) {
	l := NewLines(TableConfig{Wide: true, Today: at})
	first := published(Added, `{"kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":1}}`, nil)
	text, err := l.Append([]byte("before\n"), first, 1)
	require.NoError(t, err)
	clear(first.Data) // whose memory is used again
	text, err = l.Append(text, published(Updated, `{"kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":3}}`,
		map[string]string{"id": "u1.8", "resourceversion": "8"}), 2)
	require.NoError(t, err)
	lines := strings.Split(string(text), "\n")
	require.True(t, len(lines) == 5 && lines[0] == "before" && lines[4] == "", "the lines are %q", lines)
	for i, want := range [][]string{
		{"TIME", "SEQ", "PIPELINE", "OP", "REASON", "RESOURCE", "OBJECT", "VERSION", "MANAGER", "UID", "WHAT"},
		{"2026-11-20T14:30:05.250Z", "1", "audit", "added", "watch", "deployments.v1.apps", "shop/web", "7", "kubectl", "u1"},
		{
			"2026-11-20T14:30:05.250Z", "2", "audit", "updated", "watch", "deployments.v1.apps", "shop/web", "8", "kubectl",
			"u1", "spec.replicas", "1→3",
		},
	} {
		got := strings.Fields(lines[i+1])
		require.GreaterOrEqual(t, len(got), len(want), "line %d, want %q", i+1, want)
		assert.Equal(t, strings.Join(want, " "), strings.Join(got[:len(want)], " "), "line %d, want %q", i+1, want)
	}
}

func TestLines_say_nothing_of_what_another_object_of_the_name_was(t *testing.T) {
	l := NewLines(TableConfig{Today: at, NoHeaders: true})
	must.Get(l.Append(nil, published(Added, `{"spec":{"replicas":1}}`, nil), 1))(t)
	other := map[string]string{"objectuid": "u2", "id": "u2.1795212000.9.0"}
	line, err := l.Append(nil, published(Updated, `{"spec":{"replicas":3}}`, other), 2)
	require.NoError(t, err)
	assert.NotContains(t, string(line), "1→3", "the line is %q", line)
	assert.Error(t, must.Err(l.Append(nil, &sink.Message{Data: []byte("{}")}, 3)), "what is no event has a line")
}

func TestDescribe_says_what_was_too_large_for_the_log(t *testing.T) {
	small := map[string]string{"payload": "metadata", "datasize": "1400123"}
	kept := map[string]string{
		"payload": "metadata", "datasize": "3000000",
		"dataref": "nats-obj:KUBERNETES-objects/h.u1.7\x1b",
	}
	for _, c := range []struct {
		op   Op
		with map[string]string
		want string
	}{
		{Added, small, "created by kubectl, too large for the log: 1400123 bytes"},
		{Updated, small, "too large for the log: 1400123 bytes"},
		{Updated, kept, `too large for the log: 3000000 bytes are in nats-obj:KUBERNETES-objects/h.u1.7\x1b`},
		{Deleted, small, "too large for the log: 1400123 bytes"},
	} {
		assert.Equal(t, c.want, Describe(event(t, c.op, `{"metadata":{}}`, c.with), unknown, 4), "%s", c.op)
	}
	// What follows a state without its object cannot be compared with it.
	before := event(t, Added, `{"metadata":{}}`, small)
	assert.Empty(t, Describe(event(t, Updated, `{"metadata":{},"spec":{}}`, nil), func() *Event { return before }, 4))
}
