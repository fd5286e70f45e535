// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// mask is the base64 of what a Secret's value is replaced by.
const mask = `"W3JlZGFjdGVkXQ=="`

// Whoever follows the log by its attributes need not know that a body was left out.
func TestReduced_has_all_that_the_whole_event_has_but_the_body(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		stream, cfg := drawStream(r), config()
		cfg.Mode = rapid.SampledFrom([]Mode{Binary, Structured}).Draw(r, "mode")
		cfg.WriterTerm = rapid.IntRange(0, 2).Draw(r, "term")
		if rapid.Bool().Draw(r, "in Knative's") {
			inKnative(&cfg)
		}
		c, e, m := drawChange(r, stream), New(stream, cfg), dirty()
		require.NoError(r, e.Change(m, c))
		wholeState := must.Get(StateOf(stored(m)))(r)
		want, data := parts(r, m)
		whole := *m
		require.NoError(r, e.Reduced(m, c, len(data), "nats-obj:b/n"))
		got, _ := parts(r, m)
		want["payload"], want["datasize"], want["dataref"] = "metadata", got["datasize"], "nats-obj:b/n"
		require.Len(r, got, len(want), "want %v", want)
		assert.NotEmpty(r, want["datasize"], "want %v", want)
		for name, value := range want {
			assert.Equal(r, value, got[name], name)
		}
		assert.True(r, m.ID == whole.ID && m.Key == whole.Key && m.Subject == whole.Subject && m.Last == whole.Last,
			"the message is %+v, want %+v", m, whole)
		st, err := StateOf(stored(m))
		assert.True(r, err == nil && st == wholeState, "it is read as %+v, %v; want %+v", st, err, wholeState)
		bare := must.Get(e.Data(c))(r)
		assert.Equal(r, data, string(bare), "the data is %s", bare)
	})
}

func TestReduced_has_the_metadata_alone_without_what_is_never_published(t *testing.T) {
	for _, mode := range []Mode{Binary, Structured} {
		cfg, m, c := config(), dirty(), change(t, source.Updated, "secret.json")
		cfg.Mode = mode
		e := New(source.Stream{Resource: secrets}, cfg)
		require.NoError(t, e.Reduced(m, c, 7, ""))
		if s := string(m.Data); strings.Contains(s, mask) || strings.Contains(s, "last-applied") ||
			!strings.Contains(s, `"metadata":{"name"`) {
			t.Errorf("%s: the data is %s", mode, s)
		}
		// What is kept elsewhere is what would have been published.
		data, err := e.Data(c)
		if err != nil || !strings.Contains(string(data), mask) || strings.Contains(string(data), "last-applied") ||
			strings.HasPrefix(string(data), `{"specversion"`) {
			t.Errorf("%s: kept is %s, %v", mode, data, err)
		}
	}
}

func TestReduced_and_Data_refuse_what_Change_refuses(t *testing.T) {
	e, c := New(source.Stream{Resource: pods}, config()), ident(source.Added, "[]")
	assert.Error(t, e.Reduced(&sink.Message{}, c, 1, ""), "Reduced took it")
	data, err := e.Data(c)
	assert.Error(t, err, "Data returned %s", data)
}

// What a message is reduced to, and what is kept elsewhere, is redacted as the whole message would have been.
func TestReduced_is_redacted(t *testing.T) {
	const object = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","annotations":{"token":"canary-1",` +
		`"other":"kept"}},"spec":{"x":"canary-2"}}`
	for _, profile := range []Profile{Own, Knative} {
		e := redacting(t, pods, Config{Profile: profile, Host: "https://api:6443"}, "metadata.annotations.token", "spec.x")
		c, m := ident(source.Updated, object), dirty()
		require.NoError(t, e.Reduced(m, c, 5000, "nats-obj:b/n"))
		data := must.Get(e.Data(c))(t)
		for _, b := range [][]byte{m.Data, data} {
			if s := string(b); strings.Contains(s, "canary") || !strings.Contains(s, `"token":"[redacted]"`) ||
				!strings.Contains(s, `"other":"kept"`) {
				t.Errorf("%s: %s", profile, s)
			}
		}
	}
}
