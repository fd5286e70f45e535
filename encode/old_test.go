// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan/jsonscantest"
	"github.com/kube-eventbridge/kube-eventbridge/encode/patch/patchtest"
	"github.com/kube-eventbridge/kube-eventbridge/encode/redact"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// oldOf is what the log has of the object in a file, as it was before something in it changed.
func oldOf(t testing.TB, e *Encoder, file string) Old {
	t.Helper()
	c := change(t, source.Added, file)
	before := patchtest.Decoded(t, c.Body.Bytes()).(map[string]any)
	before["metadata"].(map[string]any)["resourceVersion"] = "17"
	before["before"] = []any{"x"}
	if spec, ok := before["spec"].(map[string]any); ok {
		spec["size"] = "other"
	}
	b := must.Get(json.Marshal(before))(t)
	c.Body = source.NewBody(b)
	data := must.Get(e.ChangeFrom(&sink.Message{}, c, Old{}, nil))(t)
	return Old{Data: data, ResourceVersion: "17"}
}

// consumer has what the events so far say.
type consumer struct {
	t       *rapid.T
	data    any
	version string
	// patched counts the events that were patches.
	patched int
}

func (c *consumer) take(m *sink.Message) {
	c.t.Helper()
	has, data := parts(c.t, m)
	base := has["baseversion"]
	require.True(c.t, base == "" || base == c.version,
		"the event applies to %s, and the one before was %s", base, c.version)
	v := patchtest.DecodedValue(data)
	switch p := Payload(has["payload"]); {
	case p == Object && base == "":
		c.data = v
	case p == MergePatch && base != "":
		c.patched++
		c.data = patchtest.Merge(c.data, v)
	case p == JSONPatch && base != "":
		c.patched++
		var err error
		if c.data, err = patchtest.Apply(c.data, v.([]any)); err != nil {
			c.t.Fatalf("%s: %v", data, err)
		}
	case p == Change:
		old, there := v.(map[string]any)["oldObject"]
		require.True(c.t, there == (base != "") && (!there || reflect.DeepEqual(old, c.data)),
			"from %q: %s has not the object before: %v", base, data, c.data)
		c.data = v.(map[string]any)["object"]
	default:
		c.t.Fatalf("payload %s from %q", p, base)
	}
	c.version = has["resourceversion"]
}

func TestChangeFrom_whoever_applies_all_events_has_what_whole_objects_would_have_said(t *testing.T) {
	patched := map[Payload]int{}
	rapid.Check(t, func(r *rapid.T) {
		stream := source.Stream{Resource: rapid.SampledFrom([]source.Resource{pods, secrets, databases}).Draw(r, "resource")}
		cfg := config()
		cfg.Mode = rapid.SampledFrom([]Mode{Binary, Structured}).Draw(r, "mode")
		cfg.Keep = rapid.SampledFrom([][]string{nil, {KeepManagedFields}, {KeepLastApplied}}).Draw(r, "keep")
		cfg.Payload = rapid.SampledFrom([]Payload{Change, MergePatch, JSONPatch}).Draw(r, "payload")
		if rapid.Bool().Draw(r, "redact") {
			cfg.Redact = []jsonscan.Path{
				jsonscan.MustParsePath("spec.a"), jsonscan.MustParsePath("a[*]"),
				jsonscan.MustParsePath(`metadata.annotations["x"]`),
			}
		}
		whole := cfg
		whole.Payload = Object
		e, of := New(stream, cfg), New(stream, whole)
		o := jsonscantest.Objects{T: r}
		object := patchtest.DecodedValue(`{"metadata":{"name":"n"},"spec":` + o.Object(3) + `,"data":{"a":"eA=="},"fill":"` +
			strings.Repeat("x", 300) + `"}`)
		reads, log, room := &consumer{t: r}, Old{}, []byte(nil)
		m, want := dirty(), dirty()
		for version := range rapid.IntRange(1, 5).Draw(r, "events") {
			fields := object.(map[string]any)
			fields["metadata"] = map[string]any{"name": "n", "resourceVersion": strconv.Itoa(version)}
			c := ident(source.Updated, string(patchtest.Spelt(r, object)))
			c.ResourceVersion = strconv.Itoa(version)
			if version == 0 {
				c.Op = source.Added
			}
			data := must.Get(e.ChangeFrom(m, c, log, room))(r)
			require.NoError(r, of.Change(want, c), "%s", c.Body.Bytes())
			reads.take(m)
			_, wants := parts(r, want)
			require.Equal(r, wants, string(data), "and is told of %s", data)
			require.Equal(r, patchtest.DecodedValue(wants), reads.data, "and is told of %s", data)
			room, log = log.Data, Old{Data: data, ResourceVersion: c.ResourceVersion}
			object = patchtest.Mutated(o, object, 3)
		}
		patched[cfg.Payload] += reads.patched
	})
	assert.NotEqual(t, 0, patched[MergePatch], "too few patches were seen: %v", patched)
	assert.NotEqual(t, 0, patched[JSONPatch], "too few patches were seen: %v", patched)
}

// What is redacted is in none of the forms: neither as a new value, nor as an old one.
func TestChangeFrom_shows_nothing_that_the_object_would_not(t *testing.T) {
	for name, states := range map[string][2]string{
		"Secret": {
			`{"data":{"a":"` + canary + `1","b":"x"},"stringData":{"c":"` + canary + `2"}}`,
			`{"data":{"a":"` + canary + `3","d":"` + canary + `"}}`,
		},
		"redacted":  {`{"spec":{"token":"` + canary + `1"},"x":"1"}`, `{"spec":{"token":"` + canary + `2","y":1}}`},
		"a new one": {`{"spec":{},"x":"1"}`, `{"spec":{"token":"` + canary + `2"}}`},
		"an object": {
			`{"spec":{"token":{"a":"` + canary + `1","b":"` + canary + `"}},"x":"1"}`,
			`{"spec":{"token":{"a":"` + canary + `2"}}}`,
		},
	} {
		for _, payload := range []Payload{Change, MergePatch, JSONPatch} {
			cfg := config()
			cfg.Payload, cfg.Redact = payload, []jsonscan.Path{jsonscan.MustParsePath("spec.token")}
			resource := pods
			if name == "Secret" {
				resource = secrets
			}
			e, m, old := New(source.Stream{Resource: resource}, cfg), dirty(), Old{}
			for i, state := range states {
				op := []source.Op{source.Added, source.Updated}[i]
				data := must.Get(e.ChangeFrom(m, ident(op, state), old, nil))(t)
				assert.True(t, !bytes.Contains(render(m), []byte(canary)) && !bytes.Contains(data, []byte(canary)),
					"%s as %s: %s\nkept: %s", name, payload, render(m), data)
				old = Old{Data: data, ResourceVersion: "1"}
			}
		}
	}
}

func TestChangeFrom_only_updates_are_patches(t *testing.T) {
	for _, payload := range []Payload{MergePatch, JSONPatch} {
		cfg := config()
		cfg.Payload = payload
		e, m := New(source.Stream{Resource: pods}, cfg), dirty()
		old := oldOf(t, e, "pod.json")
		for op, want := range map[source.Op]Payload{source.Added: Object, source.Updated: payload, source.Deleted: Object} {
			must.Get(e.ChangeFrom(m, change(t, op, "pod.json"), old, nil))(t)
			if got := attribute(m, "payload"); got != string(want) ||
				(attribute(m, "baseversion") == "17") != (want == payload) {
				t.Errorf("%v as %s has payload %s from %q", op, payload, got, attribute(m, "baseversion"))
			}
		}
	}
}

func TestForm_is_another_one_where_data_may_be(t *testing.T) {
	forms := map[uint32]string{}
	for name, edit := range map[string]func(*Config){
		"as it is": func(*Config) {},
		"kept":     func(c *Config) { c.Keep = []string{KeepManagedFields} },
		"kept too": func(c *Config) { c.Keep = []string{KeepLastApplied} },
		"redacted": func(c *Config) { c.Redact = []jsonscan.Path{jsonscan.MustParsePath("spec.a")} },
		"redacted more": func(c *Config) {
			c.Redact = []jsonscan.Path{jsonscan.MustParsePath("spec.a"), jsonscan.MustParsePath("spec.b")}
		},
		"values":                  func(c *Config) { c.SecretValues = true },
		"hashed":                  func(c *Config) { c.SecretHashes = redact.NewHashes([]byte("0123456789abcdef")) },
		"shown":                   func(c *Config) { c.SecretAnnotations = []string{"a"} },
		"shown too":               func(c *Config) { c.SecretAnnotations = []string{"b", "a"} },
		"hashed with another key": func(c *Config) { c.SecretHashes = redact.NewHashes([]byte("0123456789abcdeg")) },
	} {
		cfg := config()
		edit(&cfg)
		form := New(source.Stream{Resource: secrets}, cfg).Form([]byte("{}"))
		other, ok := forms[form]
		assert.True(t, !ok && form != 0, "%s has the form %d, as %s", name, form, other)
		forms[form] = name
		same := cfg
		same.Payload, same.Mode, same.WriterTerm = JSONPatch, Structured, 3
		assert.Equal(t, form, New(source.Stream{Resource: secrets}, same).Form([]byte("{}")),
			"%s: what data do not depend on changes the form", name)
		assert.NotEqual(t, form, New(source.Stream{Resource: secrets}, cfg).Form([]byte(`{"a":1}`)),
			"%s: other data have the form", name)
	}
}

// The state before has another version, phase and condition, and is spelt as the new one, or backwards.
func BenchmarkChangeFrom_pod(b *testing.B) {
	raw := body(b, "pod.json")
	before := bytes.ReplaceAll(raw, []byte(`"48211734"`), []byte(`"48211700"`))
	before = bytes.Replace(before, []byte(`"phase":"Running"`), []byte(`"phase":"Pending"`), 1)
	before = bytes.Replace(before, []byte(`"type":"Ready","status":"True"`), []byte(`"type":"Ready","status":"False"`), 1)
	for _, payload := range []Payload{Change, MergePatch, JSONPatch} {
		for name, text := range map[string][]byte{"same-order": before, "backwards": patchtest.Backwards(nil, before)} {
			b.Run(string(payload)+"/"+name, func(b *testing.B) {
				cfg := config()
				cfg.Payload = payload
				e, m, c := New(source.Stream{Resource: pods}, cfg), &sink.Message{}, change(b, source.Updated, "pod.json")
				was := *c
				was.Body = source.NewBody(text)
				data, err := e.Data(&was)
				require.NoError(b, err)
				old, room := Old{Data: data, ResourceVersion: "1"}, []byte(nil)
				b.SetBytes(int64(len(c.Body.Bytes())))
				b.ReportAllocs()
				for b.Loop() {
					if room, err = e.ChangeFrom(m, c, old, room); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(len(m.Data)), "data-B")
			})
		}
	}
}
