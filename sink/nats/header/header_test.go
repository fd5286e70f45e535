// SPDX-License-Identifier: Apache-2.0

package header

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

func TestEscape_is_exactly_what_the_binding_asks_for(t *testing.T) {
	for v, want := range map[string]string{
		"":               "",
		"plain/:+,;=?&#": "plain/:+,;=?&#",
		"a b":            "a%20b",
		`say "hi"`:       "say%20%22hi%22",
		"100%":           "100%25",
		"%41":            "%2541",
		"é€😀":            "%C3%A9%E2%82%AC%F0%9F%98%80",
		"\x00\n\x7f!~":   "%00%0A%7F!~",
	} {
		assert.Equal(t, want, escape(v), "escape(%q)", v)
	}
	for v, want := range map[string]string{
		"%": "%", "%4": "%4", "%zz": "%zz", "%+1": "%+1", "a%2fb": "a/b",
		"%41%": "A%",
	} {
		assert.Equal(t, want, unescape(v), "unescape(%q)", v)
	}
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.RuneFrom([]rune("% a2\"é")), 0, 20, -1)).Draw(t, "v")
		e := escape(v)
		for _, c := range []byte(e) {
			require.True(t, c >= 0x21 && c <= 0x7e && c != '"', "escape(%q) = %q", v, e)
		}
		require.Equal(t, v, unescape(e), "it comes back")
	})
}

// The headers of a message do not depend on what was published before with the same memory.
func TestEncoder_forgets_what_it_wrote(t *testing.T) {
	names := []string{"id", "namespace", "sampledrate", "history", "kind"}
	rapid.Check(t, func(t *rapid.T) {
		w := NewEncoder("S")
		for range 40 {
			m := &sink.Message{
				ID:          rapid.StringMatching("[a-z]{1,5}").Draw(t, "id"),
				ContentType: "application/json",
				Previous:    rapid.Uint64().Draw(t, "previous"),
			}
			m.Verify, m.Shared = rapid.Bool().Draw(t, "verify"), rapid.Bool().Draw(t, "shared")
			want := map[string]string{headerID: m.ID, headerStream: "S"}
			for _, name := range names {
				if rapid.Bool().Draw(t, name) {
					v := rapid.String().Draw(t, "v")
					m.Attributes = append(m.Attributes, sink.Attribute{Name: name, Value: v})
					want["ce-"+name] = escape(v)
				}
			}
			if len(m.Attributes) == 0 {
				m.ContentType = "application/cloudevents+json"
				want["content-type"] = m.ContentType
			}
			if m.Verify && !m.Shared {
				want[headerPrevious] = fmt.Sprint(m.Previous)
			}
			got := w.Encode(m, "r").Header
			require.Len(t, got, len(want), "headers, want %v", want)
			for k, v := range want {
				require.Len(t, got[k], 1, k)
				require.Equal(t, v, got[k][0], k)
			}
			require.LessOrEqual(t, len(w.templates), maxTemplates, "templates are kept")
		}
	})
}

func TestEncoder_allocates_nothing_for_the_usual_message(t *testing.T) {
	w := NewEncoder("S")
	m := &sink.Message{Subject: "k8s.a", ID: "x", Attributes: []sink.Attribute{
		{Name: "id", Value: "1"},
		{Name: "kind", Value: "Pod"},
	}}
	n := testing.AllocsPerRun(100, func() { w.Encode(m, "r") })
	assert.True(t, n == 0, "%v allocations", n)
}
