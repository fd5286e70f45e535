// SPDX-License-Identifier: Apache-2.0

package tail

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
)

func TestUpdates_name_what_changed(t *testing.T) {
	for _, c := range []struct{ name, before, after, want string }{
		{"a number", `{"spec":{"replicas":1}}`, `{"spec":{"replicas":3}}`, "spec.replicas 1→3"},
		{
			"large numbers as they stand", `{"n":9007199254740993}`, `{"n":9007199254740992}`,
			"n 9007199254740993→9007199254740992",
		},
		{"a key", `{"data":{}}`, `{"data":{"key":"v"}}`, "data.key added (v)"},
		{"a whole object of few keys", `{}`, `{"data":{"a":"1","b":"x y"}}`, `data.a added ("1"), data.b added ("x y")`},
		{"a whole object of many keys", `{}`, `{"data":{"a":1,"b":2,"c":3,"d":4}}`, "data added ({4})"},
		{"a key removed", `{"data":{"a":true}}`, `{"data":{}}`, "data.a removed (true)"},
		{"null is a value", `{"a":null}`, `{"a":1}`, "a null→1"},
		{"another type", `{"a":{"b":1}}`, `{"a":[1,2]}`, "a {1}→[2]"},
		{"text that looks like a number", `{"a":"1"}`, `{"a":1}`, `a "1"→1`},
		{"an empty text", `{"a":"x"}`, `{"a":""}`, `a x→""`},
		{
			"what every write changes",
			`{"metadata":{"resourceVersion":"1","generation":1,"managedFields":[]}}`,
			`{"metadata":{"resourceVersion":"2","generation":2}}`, "nothing visible changed",
		},
		{
			"the annotation of kubectl apply", `{"metadata":{"annotations":{}}}`,
			`{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"}}}`, "nothing visible changed",
		},
		{
			"a name with dots", `{"metadata":{"annotations":{"a.b/c":"x"}}}`, `{"metadata":{"annotations":{"a.b/c":"y"}}}`,
			"metadata.annotations[a.b/c] x→y",
		},
		{
			"elements with names", `{"c":[{"name":"a","image":"a:1"},{"name":"b"}]}`,
			`{"c":[{"name":"b"},{"name":"a","image":"a:2"}]}`,
			"c[a].image a:1→a:2",
		},
		{"an element more", `{"c":[{"name":"a"}]}`, `{"c":[{"name":"a"},{"name":"b"}]}`, "c[b] added ({1})"},
		{"an order", `{"c":[{"name":"a"},{"name":"b"}]}`, `{"c":[{"name":"b"},{"name":"a"}]}`, "c reordered"},
		{"an order of texts", `{"c":["a","b"]}`, `{"c":["b","a"]}`, "c reordered"},
		{"texts", `{"c":["a","b"]}`, `{"c":["b","c"]}`, "c[a] removed, c[c] added"},
		{"texts that are not unique", `{"c":["a","a"]}`, `{"c":["a","b","a"]}`, "c[1] a→b, c[2] added (a)"},
		{"elements of no name", `{"c":[{"x":1}]}`, `{"c":[{"x":2},{"x":3}]}`, "c[0].x 1→2, c[1] added ({1})"},
		{
			"spec before metadata", `{"metadata":{"labels":{"a":"1x"}},"spec":{"x":1}}`,
			`{"metadata":{"labels":{"a":"2x"}},"spec":{"x":2}}`,
			"spec.x 1→2, metadata.labels.a 1x→2x",
		},
		{
			"too many", `{"a":{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1}}`, `{"a":{"a":2,"b":2,"c":2,"d":2,"e":2,"f":2}}`,
			"a.a 1→2, a.b 1→2, a.c 1→2, a.d 1→2, +2 more",
		},
		{
			"a Secret's value", `{"data":{"k":"W3JlZGFjdGVkXQ=="}}`,
			`{"data":{"k":"W3JlZGFjdGVkIGhtYWMtc2hhMjU2OjAxMjM0NTY3ODlhYmNkZWZd"}}`,
			"data.k [redacted]→[redacted hmac-sha256:0123456789abcdef]",
		},
		{"what only looks like one", `{"k":"x"}`, `{"k":"W3JlZGFjdGVkXTsgbW9yZQ=="}`, "k x→W3JlZGFjdGVkXTsgbW9yZQ=="},
		{
			"a long text", `{"a":"x"}`, `{"a":"0123456789abcdefghijklmnopqrstuvwxyz0123456789"}`,
			"a x→0123456789abcdefghijklmnopqrstuvwxyz012…",
		},
		{
			"a status", `{"status":{"readyReplicas":1,"observedGeneration":1}}`,
			`{"status":{"readyReplicas":3,"observedGeneration":2}}`,
			"status: readyReplicas 1→3",
		},
		{
			"a status beside a spec", `{"spec":{"x":1},"status":{"phase":"Pending"}}`,
			`{"spec":{"x":2},"status":{"phase":"Running"}}`,
			"spec.x 1→2, status: phase Pending→Running",
		},
		{
			"conditions",
			`{"status":{"conditions":[{"type":"Ready","status":"False","lastTransitionTime":"a","message":"m"}]}}`,
			`{"status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"b","message":"n"},{"type":"New","status":"True"}]}}`,
			"status: Ready False→True, New added (True)",
		},
		{
			"a heartbeat", `{"status":{"conditions":[{"type":"Ready","lastHeartbeatTime":"a"}]}}`,
			`{"status":{"conditions":[{"type":"Ready","lastHeartbeatTime":"b"}]}}`, "status: lastHeartbeatTime",
		},
		{
			"much of a status", `{"status":{"a":1,"b":1,"c":1,"d":1}}`, `{"status":{"a":2,"b":2,"c":2,"d":2}}`,
			"status: a 1→2, b 1→2, c 1→2, +1 more",
		},
		{"no status before", `{}`, `{"status":{"phase":"Bound"}}`, "status: phase added (Bound)"},
		{"a name like status", `{"statuses":1}`, `{"statuses":2}`, "statuses 1→2"},
		{"hostile text", `{"a":"x"}`, `{"a":"\u001b[2J\u202e"}`, `a x→"\x1b[2J\u202e"`},
		{"hostile names", `{"a":{}}`, `{"a":{"\u001b]0;x\u0007":1}}`, `a[\x1b]0;x\a] added (1)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			previous := change(t, event.Added, c.before, nil)
			got := Describe(change(t, event.Updated, c.after, nil), func() *event.Event { return previous }, 4)
			assert.Equal(t, c.want, got)
			assert.True(t, printable(got), "not printable: %q", got)
		})
	}
}

func TestUpdates_of_other_payloads(t *testing.T) {
	for _, c := range []struct{ payload, data, want string }{
		{"change", `{"object":{"a":2},"oldObject":{"a":1}}`, "a 1→2"},
		{"change", `{"object":{"a":2}}`, ""},
		{
			"merge-patch", `{"metadata":{"resourceVersion":"9","labels":{"x":null}},"spec":{"replicas":3}}`,
			"spec.replicas →3, metadata.labels.x removed",
		},
		{"merge-patch", `null`, "nothing visible changed"},
		{
			"json-patch", `[{"op":"replace","path":"/spec/replicas","value":3},{"op":"remove","path":"/metadata/labels/a~1b"},
			{"op":"add","path":"/c/-","value":{}},{"op":"test","path":"/x","value":1},{"op":"replace","path":"/metadata/resourceVersion","value":"9"}]`,
			"spec.replicas →3, c[-] added ({0}), metadata.labels[a/b] removed",
		},
		{"json-patch", `{"op":1}`, "nothing visible changed"},
		{"object", `no JSON`, ""},
		{"", `{"a":1}`, ""},
	} {
		got := Describe(change(t, event.Updated, c.data, map[string]string{"payload": c.payload}), unknown, 4)
		assert.Equal(t, c.want, got, "%s %s", c.payload, c.data)
	}
}

func TestUpdates_by_merge_patches_say_what_was_before_as_far_as_that_is_known(t *testing.T) {
	const whole = `{"spec":{"replicas":1,"containers":[{"name":"a","image":"a:1"}]},"metadata":{"labels":{"x":"y",` +
		`"z":"1z"}}}`
	const patch = `{"spec":{"replicas":3,"containers":[{"name":"a","image":"a:2"}],"paused":true},` +
		`"metadata":{"labels":{"x":null}}}`
	const values = "spec.containers →[1], spec.paused →true, spec.replicas →3, metadata.labels.x removed"
	for _, c := range []struct{ name, payload, base, before, want string }{
		{
			"a whole object", "object", "8", whole,
			"spec.containers[a].image a:1→a:2, spec.paused added (true), spec.replicas 1→3, metadata.labels.x removed (y)",
		},
		{"another version", "object", "7", whole, values},
		{"a part", "metadata", "8", `{"metadata":{"labels":{"x":"y"}}}`, values},
		{
			"a patch of the same", "merge-patch", "8", `{"spec":{"replicas":2}}`,
			"spec.containers →[1], spec.paused →true, spec.replicas 2→3, metadata.labels.x removed",
		},
		{
			"a patch that removed", "merge-patch", "8", `{"spec":{"paused":null},"metadata":{"labels":{"x":"w"}}}`,
			"spec.containers →[1], spec.paused added (true), spec.replicas →3, metadata.labels.x removed (w)",
		},
		{"a patch of another kind", "json-patch", "8", `[]`, values},
		{"no object", "object", "8", `[]`, values},
	} {
		previous := change(t, event.Updated, c.before, map[string]string{"payload": c.payload, "resourceversion": c.base})
		e := change(t, event.Updated, patch, map[string]string{"payload": "merge-patch", "baseversion": "8", "resourceversion": "9"})
		assert.Equal(t, c.want, Describe(e, func() *event.Event { return previous }, 8), c.name)
	}
}

func TestUpdates_say_nothing_where_the_state_before_is_not_known(t *testing.T) {
	e := change(t, event.Updated, `{"a":1}`, nil)
	assert.Empty(t, Describe(e, unknown, 4), "without a state before")
	part := change(t, event.Added, `{"a":2}`, map[string]string{"payload": "metadata"})
	assert.Empty(t, Describe(e, func() *event.Event { return part }, 4), "with only the metadata before")
}

func TestDescribe(t *testing.T) {
	young := `{"metadata":{"creationTimestamp":"2026-11-20T14:30:05Z","ownerReferences":[{"kind":"Job","name":"j"},` +
		`{"kind":"App","name":"x","controller":true}]}}`
	old := `{"metadata":{"creationTimestamp":"2026-11-17T14:30:05Z"}}`
	before := change(t, event.Updated, old, map[string]string{"recordedtime": "2026-11-20T14:25:05Z", "resourceversion": "5"})
	for _, c := range []struct {
		op       event.Op
		data     string
		with     map[string]string
		previous *event.Event
		want     string
	}{
		{event.Added, young, nil, nil, "created by kubectl, owned by App/x"},
		{event.Added, `{}`, map[string]string{"fieldmanager": ""}, nil, "created"},
		{event.Added, old, nil, nil, "new in this stream, created 3d before"},
		{event.Added, old, map[string]string{"reason": "snapshot"}, nil, "already there, created 3d before"},
		{event.Added, `{}`, map[string]string{"reason": "relist"}, nil, "found after a gap"},
		{event.Added, `{}`, map[string]string{"reason": "resync"}, nil, "published again"},
		{event.Deleted, old, nil, before, "existed at most 3d, last known version 5"},
		{event.Deleted, old, nil, nil, "existed at most 3d"},
		{event.Deleted, young, nil, nil, "existed less than 1s, owned by App/x"},
		{event.Deleted, `{}`, nil, nil, ""},
		{event.Deleted, `{}`, map[string]string{"reason": "relist"}, nil, "found missing (relist), last known version 7"},
		{event.Deleted, `{}`, map[string]string{"reason": "snapshot"}, before, "found missing (snapshot), last known version 5"},
		{event.Deleted, old, map[string]string{"reason": "recovered"}, before, "recovered after a gap, last known version 5"},
		{event.Deleted, old, map[string]string{"reason": "repair"}, nil, "repair"},
		{
			event.Deleted, old,
			map[string]string{"reason": "deselected"},
			before,
			"exists, and is not selected any more, last known version 5",
		},
		{event.Updated, old, map[string]string{"sampledrate": "5"}, before, "nothing visible changed (5 changes in one)"},
		{event.Updated, old, map[string]string{"reason": "relist"}, before, "nothing visible changed (found after a gap)"},
		{event.Updated, old, map[string]string{"reason": "recovered"}, nil, "(recovered after a gap)"},
		{event.Updated, old, map[string]string{"reason": "resync"}, nil, "(resync)"},
		{
			event.Rejected, `{"type":"io.kube-eventbridge.resource.updated.v1","error":"too\nlarge","size":2097152}`, nil, nil,
			`the log refused this event (updated) of 2097152 bytes: too\nlarge`,
		},
		{
			event.Gap, `{"from":"100","to":"200","cause":"expired","message":"410 Gone\u001b[0m","epoch":7}`, nil, nil,
			`changes between 100 and 200 are not known (expired): 410 Gone\x1b[0m`,
		},
		{
			event.Gap, `{"from":"100","to":"60","cause":"restored","message":"","epoch":7}`, nil, nil,
			"versions start again: known up to 100 before, and from 60 on (restored)",
		},
		{
			event.Gap, `{"from":"135","to":"135","cause":"selection"}`, nil, nil,
			"listed again at version 135; no version is skipped (selection)",
		},
		{event.Gap, `{"from":"100","to":"200"}`, nil, nil, "changes between 100 and 200 are not known"},
		{event.ResyncStarted, `{"n":1795212000}`, nil, nil, "resync 1795212000: what exists is published again"},
		{
			event.ResyncCompleted, `{"n":1795212000,"objects":12,"complete":true}`, nil, nil,
			"resync 1795212000 is complete: 12 objects",
		},
		{
			event.ResyncCompleted, `{"n":1795212000,"objects":1,"complete":false}`, nil, nil,
			"resync 1795212000 has ended and is not complete: 1 object",
		},
		{event.SnapshotStarted, `{"resourceVersion":"90"}`, nil, nil, "what exists at 90 follows"},
		{event.SnapshotCompleted, `{"resourceVersion":"90","objects":12}`, nil, nil, "this was what existed at 90: 12 objects"},
		{
			event.Unknown, `{}`,
			map[string]string{"type": "io.kube-eventbridge.writer.started.v1"},
			nil,
			"io.kube-eventbridge.writer.started.v1",
		},
	} {
		got := Describe(change(t, c.op, c.data, c.with), func() *event.Event { return c.previous }, 4)
		assert.Equal(t, c.want, got, "%s %v", c.op, c.with)
	}
}
