// SPDX-License-Identifier: Apache-2.0

package tail

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

func published(op event.Op, data string, with map[string]string) *sink.Message {
	m := message(0, op, data, with)
	return &sink.Message{
		Subject: m.Subject, ID: "u1.1795212000.7.0", Attributes: m.Attributes, ContentType: m.ContentType, Data: m.Data,
	}
}

func TestLines_are_those_of_a_table_and_say_what_changed(t *testing.T) {
	l := NewLines(TableConfig{Wide: true, Today: at})
	first := published(event.Added, `{"kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":1}}`, nil)
	text, err := l.Append([]byte("before\n"), first, 1)
	require.NoError(t, err)
	clear(first.Data) // whose memory is used again
	text, err = l.Append(text, published(event.Updated, `{"kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":3}}`,
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
	must.Get(l.Append(nil, published(event.Added, `{"spec":{"replicas":1}}`, nil), 1))(t)
	other := map[string]string{"objectuid": "u2", "id": "u2.1795212000.9.0"}
	line, err := l.Append(nil, published(event.Updated, `{"spec":{"replicas":3}}`, other), 2)
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
		op   event.Op
		with map[string]string
		want string
	}{
		{event.Added, small, "created by kubectl, too large for the log: 1400123 bytes"},
		{event.Updated, small, "too large for the log: 1400123 bytes"},
		{event.Updated, kept, `too large for the log: 3000000 bytes are in nats-obj:KUBERNETES-objects/h.u1.7\x1b`},
		{event.Deleted, small, "too large for the log: 1400123 bytes"},
	} {
		assert.Equal(t, c.want, Describe(change(t, c.op, `{"metadata":{}}`, c.with), unknown, 4), "%s", c.op)
	}
	// What follows a state without its object cannot be compared with it.
	before := change(t, event.Added, `{"metadata":{}}`, small)
	assert.Empty(t, Describe(change(t, event.Updated, `{"metadata":{},"spec":{}}`, nil), func() *event.Event { return before }, 4))
}
