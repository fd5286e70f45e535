// SPDX-License-Identifier: Apache-2.0

package tail

import (
	"strings"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func published(op Op, data string, with map[string]string) *sink.Message {
	m := message(0, op, data, with)
	return &sink.Message{Subject: m.Subject, ID: "u1.7", Attributes: m.Attributes, ContentType: m.ContentType, Data: m.Data}
}

func TestLines_are_those_of_a_table_and_say_what_changed(t *testing.T) {
	l := NewLines(TableConfig{Wide: true, Today: at})
	first := published(Added, `{"kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":1}}`, nil)
	text, err := l.Append([]byte("before\n"), first, 1)
	require.NoError(t, err)
	clear(first.Data) // whose memory is used again
	text, err = l.Append(text, published(Updated, `{"kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":3}}`, map[string]string{"id": "u1.8", "resourceversion": "8"}), 2)
	require.NoError(t, err)
	lines := strings.Split(string(text), "\n")
	if len(lines) != 5 || lines[0] != "before" || lines[4] != "" {
		t.Fatalf("the lines are %q", lines)
	}
	for i, want := range [][]string{
		{"TIME", "SEQ", "PIPELINE", "OP", "REASON", "RESOURCE", "OBJECT", "VERSION", "MANAGER", "UID", "WHAT"},
		{"2026-11-20T14:30:05.250Z", "1", "audit", "added", "watch", "deployments.v1.apps", "shop/web", "7", "kubectl", "u1"},
		{"2026-11-20T14:30:05.250Z", "2", "audit", "updated", "watch", "deployments.v1.apps", "shop/web", "8", "kubectl", "u1", "spec.replicas", "1→3"},
	} {
		got := strings.Fields(lines[i+1])
		require.GreaterOrEqual(t, len(got), len(want), "line %dwant %q", i+1, want)
		assert.Equal(t, strings.Join(want, " "), strings.Join(got[:len(want)], " "), "line %dwant %q", i+1, want)
	}
}

func TestLines_say_nothing_of_what_another_object_of_the_name_was(t *testing.T) {
	l := NewLines(TableConfig{Today: at, NoHeaders: true})
	must.Get(l.Append(nil, published(Added, `{"spec":{"replicas":1}}`, nil), 1))(t)
	line, err := l.Append(nil, published(Updated, `{"spec":{"replicas":3}}`, map[string]string{"objectuid": "u2", "id": "u2.9"}), 2)
	require.NoError(t, err)
	assert.NotContains(t, string(line), "1→3", "the line is %q", line)
	if _, err := l.Append(nil, &sink.Message{Data: []byte("{}")}, 3); err == nil {
		t.Error("what is no event has a line")
	}
}
