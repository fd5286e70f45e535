// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan/jsonscantest"
	"github.com/kube-eventbridge/kube-eventbridge/encode/redact"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

func redacting(t testing.TB, r source.Resource, cfg Config, all ...string) *Encoder {
	t.Helper()
	for _, s := range all {
		cfg.Redact = append(cfg.Redact, jsonscan.MustParsePath(s))
	}
	return New(source.Stream{Resource: r}, cfg)
}

func dataOf(t testing.TB, e *Encoder, object string) string {
	t.Helper()
	m := dirty()
	require.NoError(t, e.Change(m, ident(source.Updated, object)))
	return string(m.Data)
}

func TestRedact_replaces_the_values_that_a_path_names_and_nothing_else(t *testing.T) {
	for _, c := range []struct{ paths, object, want string }{
		{"spec.x", `{"spec":{"x":"v","y":"v"},"x":"v"}`, `{"spec":{"x":"[redacted]","y":"v"},"x":"v"}`},
		{"spec.x", `{"spec":{"x":-1.5e3}}`, `{"spec":{"x":0}}`},
		{"spec.x", `{"spec":{"x":true}}`, `{"spec":{"x":false}}`},
		{"spec.x", `{"spec":{"x":null}}`, `{"spec":{"x":null}}`},
		{"spec.x", `{"spec":{"x":{"key":"v"}}}`, `{"spec":{"x":{}}}`},
		{"spec.x", `{"spec":{"x":["v",["v"]]}}`, `{"spec":{"x":[]}}`},
		{"spec.x", `{"spec":"x"}`, `{"spec":"x"}`},
		{"spec.x", `{"spec":{"\u0078":"v"}}`, `{"spec":{"\u0078":"[redacted]"}}`},
		{
			"spec.x", `{"spec":{"x":"v"},"spec":{"x":"v","x":"v"}}`,
			`{"spec":{"x":"[redacted]"},"spec":{"x":"[redacted]","x":"[redacted]"}}`,
		},
		{
			"spec.l[*].v", `{"spec":{"l":[{"n":"a","v":"v"},{"v":1},{},"v"]}}`,
			`{"spec":{"l":[{"n":"a","v":"[redacted]"},{"v":0},{},"v"]}}`,
		},
		{"spec.l.v", `{"spec":{"l":[{"n":"a","v":"v"},[{"v":1}]]}}`, `{"spec":{"l":[{"n":"a","v":"[redacted]"},[{"v":0}]]}}`},
		{"spec.l[*]", `{"spec":{"l":["v",1,["v"],{"k":"v"}]}}`, `{"spec":{"l":["[redacted]",0,[],{}]}}`},
		{"data[*]", `{"data":{"a":"v","b":"v"}}`, `{"data":{"a":"[redacted]","b":"[redacted]"}}`},
		{"data", `{"data":{"a":"v","b":"v"}}`, `{"data":{}}`},
		{
			"a[*].b a.c.d", `{"a":{"c":{"b":"v","d":"v","e":"v"},"f":{"b":"v","d":"v"}}}`,
			`{"a":{"c":{"b":"[redacted]","d":"[redacted]","e":"v"},"f":{"b":"[redacted]","d":"v"}}}`,
		},
		{"a a.b", `{"a":{"b":"v"}}`, `{"a":{}}`},
		{
			`metadata.annotations["e.com/t"]`, `{"metadata":{"annotations":{"e.com/t":"v","u":"w"}}}`,
			`{"metadata":{"annotations":{"e.com/t":"[redacted]","u":"w"}}}`,
		},
		{
			`metadata.annotations["` + lastApplied + `"]`, `{"metadata":{"annotations":{"` + lastApplied + `":"v","a":"b"}}}`,
			`{"metadata":{"annotations":{"a":"b"}}}`,
		},
		{
			"metadata.annotations", `{"metadata":{"annotations":{"a":"b","` + lastApplied +
				`":"v"},"managedFields":[],"name":"n"}}`,
			`{"metadata":{"annotations":{},"name":"n"}}`,
		},
		{
			"spec.x", `{"metadata":{"managedFields":[{"fieldsV1":{"f:spec":{"v:\"v\"":{}}}}],"name":"n"},"spec":{"x":"v"}}`,
			`{"metadata":{"name":"n"},"spec":{"x":"[redacted]"}}`,
		},
		{
			"spec.x", `{"metadata":{"annotations":{"kapp.k14s.io/original":"v","a":"b","` + lastApplied + `":"v"}}}`,
			`{"metadata":{"annotations":{"a":"b"}}}`,
		},
		{"spec.x", `{}`, `{}`},
	} {
		cfg := config()
		cfg.Keep = []string{KeepManagedFields, KeepLastApplied}
		assert.Equal(t, c.want, dataOf(t, redacting(t, pods, cfg, strings.Fields(c.paths)...), c.object),
			"%s: %s", c.paths, c.object)
	}
}

func TestRedact_of_metadata_alone(t *testing.T) {
	cfg := config()
	cfg.Payload = Metadata
	e := redacting(t, pods, cfg, "spec.x", "metadata.labels.a")
	got := dataOf(t, e, `{"spec":{"x":"v"},"metadata":{"labels":{"a":"v","b":"w"}},"status":{"x":"v"}}`)
	assert.Equal(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":"[redacted]","b":"w"}}}`, got)
}

func TestRedact_keeps_base64_where_typed_clients_decode_it(t *testing.T) {
	maps := source.Resource{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true}
	got := dataOf(t, redacting(t, maps, config(), "data.a", "binaryData[*]"),
		`{"data":{"a":"v"},"binaryData":{"b":"dg=="}}`)
	assert.Equal(t, `{"data":{"a":"[redacted]"},"binaryData":{"b":"W3JlZGFjdGVkXQ=="}}`, got)
	cfg := config()
	cfg.SecretValues = true
	got = dataOf(t, redacting(t, secrets, cfg, "data.a"), `{"data":{"a":"dg==","b":"dw=="}}`)
	assert.Equal(t, `{"data":{"a":"W3JlZGFjdGVkXQ==","b":"dw=="}}`, got)
}

func TestRedact_holds_for_what_is_left_of_a_Secret_too(t *testing.T) {
	cfg := config()
	cfg.SecretAnnotations = []string{"token", "a"}
	got := dataOf(t, redacting(t, secrets, cfg, "metadata.annotations.token"),
		`{"metadata":{"annotations":{"token":"v","a":"b"}},"data":{"x":"dg=="}}`)
	assert.Equal(t, `{"metadata":{"annotations":{"token":"[redacted]","a":"b"}},"data":{"x":"W3JlZGFjdGVkXQ=="}}`,
		got)
}

func TestRedact_refuses_what_it_cannot_follow(t *testing.T) {
	e := redacting(t, pods, config(), "spec.x.y")
	for _, object := range []string{
		`{"metadata":{}`, `{"metadata":{}}}`, `{"spec":{"x":[}}`, `{"spec":{"x":[1 2]}}`, `{"metadata":{},"spec":{"x"}}`,
		`{"metadata":{}} {"spec":{}}`,
		`{"spec":{"x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}}`,
	} {
		m, c := dirty(), ident(source.Updated, object)
		assert.ErrorIs(t, e.Change(m, c), jsonscan.ErrNotObject, "%.40sand %s", object, m.Data)
	}
	// Of what is not JSON nothing is told: anything may be a value.
	m := dirty()
	e.Rejected(m, ident(source.Updated, `{"metadata":{"managedFields":[{"manager":"`+canary+`"}]},"spec":{"x":`),
		errors.New("x"), 1)
	assert.False(t, bytes.Contains(render(m), []byte(canary)), "the rejection is %s", render(m))
}

// tree is JSON with its members in order, as often as they are there.
type tree struct {
	kind     jsontext.Kind
	text     string
	names    []string
	children []*tree
}

func parseTree(b []byte) (*tree, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(b), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return readTree(d)
}

func readTree(d *jsontext.Decoder) (*tree, error) {
	t, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	n := &tree{kind: t.Kind()}
	if n.kind != '{' && n.kind != '[' {
		n.text = t.String()
		return n, nil
	}
	for d.PeekKind() != '}' && d.PeekKind() != ']' {
		if n.kind == '{' {
			name, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			n.names = append(n.names, name.String())
		}
		c, err := readTree(d)
		if err != nil {
			return nil, err
		}
		n.children = append(n.children, c)
	}
	_, err = d.ReadToken()
	return n, err
}

func (n *tree) String() string {
	if n.kind != '{' && n.kind != '[' {
		return fmt.Sprintf("%v%q", n.kind, n.text)
	}
	return fmt.Sprintf("%v%q%v", n.kind, n.names, n.children)
}

// redact is what redaction means, path by path.
func (n *tree) redact(steps []jsonscan.Step) {
	if len(steps) == 0 {
		n.mask()
		return
	}
	for i, c := range n.children {
		switch s := steps[0]; {
		case s.Every:
			c.redact(steps[1:])
		case n.kind == '[':
			c.redact(steps)
		case n.names[i] == s.Name:
			c.redact(steps[1:])
		}
	}
}

func (n *tree) mask() {
	n.names, n.children = nil, nil
	masks := map[jsontext.Kind]string{'"': "[redacted]", '0': "0", 't': "false"}
	if text, ok := masks[n.kind]; ok {
		n.text = text
	}
	if n.kind == 't' {
		n.kind = 'f'
	}
}

// leaveOut removes what is left out of an object that is redacted.
func (n *tree) leaveOut() {
	for _, metadata := range n.all("metadata") {
		metadata.remove(func(name string) bool { return name == "managedFields" })
		for _, annotations := range metadata.all("annotations") {
			annotations.remove(func(name string) bool { return redact.CheckAnnotation(name) != nil })
		}
	}
}

// all returns the members of a name.
func (n *tree) all(name string) (found []*tree) {
	for i := range n.names {
		if n.names[i] == name {
			found = append(found, n.children[i])
		}
	}
	return found
}

func (n *tree) remove(goes func(name string) bool) {
	for i := len(n.names) - 1; i >= 0; i-- {
		if goes(n.names[i]) {
			n.names, n.children = slices.Delete(n.names, i, i+1), slices.Delete(n.children, i, i+1)
		}
	}
}

// checkRedact compares redaction with what it means, alone and in an event.
func checkRedact(t tester, b []byte, paths ...jsonscan.Path) {
	r := redact.NewPaths(pods, paths)
	got, _, err := r.Apply(b)
	want, invalid := parseTree(b)
	if invalid != nil || !json.Valid(b) {
		return
	}
	if want.kind != '{' {
		if !errors.Is(err, jsonscan.ErrNotObject) {
			t.Fatalf("%q is no object: error is %v", b, err)
		}
		return
	}
	if err != nil {
		t.Fatalf("%q: %v", b, err)
	}
	for _, p := range paths {
		want.redact(p.Steps())
	}
	if !json.Valid(got) {
		t.Fatalf("%q became %q, which is not JSON", b, got)
	}
	if after, err := parseTree(got); err != nil || after.String() != want.String() {
		t.Errorf("%q of %q became %q, want %s (%v)", paths, b, got, want, err)
	}
	cfg, m := config(), dirty()
	cfg.Redact, cfg.Keep = paths, []string{KeepManagedFields, KeepLastApplied}
	if err := New(source.Stream{Resource: pods}, cfg).Change(m, ident(source.Updated, string(b))); err != nil {
		t.Fatalf("%q: %v", b, err)
	}
	want.leaveOut()
	unmasked, _ := parseTree(b)
	if unmasked.leaveOut(); unmasked.String() != want.String() && !isRedacted(m) {
		t.Errorf("%q of %q became the data %q, which is not said to be redacted", paths, b, m.Data)
	}
	if after, err := parseTree(m.Data); err != nil || after.String() != want.String() {
		t.Errorf("%q of %q became the data %q, want %s (%v)", paths, b, m.Data, want, err)
	}
}

func FuzzRedact(f *testing.F) {
	for _, s := range hostile {
		f.Add([]byte(s), "spec.x", "metadata.a[*].b")
	}
	f.Add([]byte(`{"a":[{"b":[1,{"c":"x"}]},[[{"b":"\""}]]],"\u0061":{"b":2}}`), "a[*].b", "a.b.c")
	f.Add(body(f, "pod.json"), "spec.containers[*].env[*].value", "metadata.labels[*]")
	f.Add(body(f, "customresource.json"), "[*].x", "spec")
	f.Fuzz(func(t *testing.T, b []byte, one, other string) {
		var paths []jsonscan.Path
		for _, s := range []string{one, other} {
			if p, err := jsonscan.ParsePath(s); err == nil && redact.CheckPath(p) == nil {
				paths = append(paths, p)
			}
		}
		if len(paths) > 0 {
			checkRedact(t, b, paths...)
		}
	})
}

func drawPath(t *rapid.T) jsonscan.Path {
	text := ""
	for range rapid.IntRange(1, 4).Draw(t, "steps") {
		if rapid.IntRange(0, 3).Draw(t, "every") == 0 {
			text += "[*]"
			continue
		}
		names := []string{"metadata", "annotations", "spec", "a", "time", `"`, `\`, "日本", "m\u0065tadata"}
		text += "['" + rapid.SampledFrom(names).Draw(t, "name") + "']"
	}
	return jsonscan.MustParsePath(text)
}

func TestRedact_of_bytes_is_redaction_of_what_they_mean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := jsonscantest.Objects{T: t, White: rapid.Bool().Draw(t, "white"), Repeat: rapid.Bool().Draw(t, "repeat")}
		b := []byte(o.Object(4))
		var paths []jsonscan.Path
		for range rapid.IntRange(1, 4).Draw(t, "paths") {
			p := drawPath(t)
			if redact.CheckPath(p) == nil {
				paths = append(paths, p)
			}
		}
		if len(paths) > 0 {
			checkRedact(t, b, paths...)
		}
	})
}

const hashKey = "0123456789abcdef"

func hashed(t *testing.T, key, object string) map[string]string {
	t.Helper()
	cfg := config()
	cfg.SecretHashes = redact.NewHashes([]byte(key))
	m, c := dirty(), ident(source.Updated, object)
	require.NoError(t, New(source.Stream{Resource: secrets}, cfg).Change(m, c))
	var typed struct {
		Metadata   struct{ Annotations map[string]string }
		Data       map[string][]byte
		StringData map[string]string
	}
	require.NoError(t, json.Unmarshal(m.Data, &typed))
	all := map[string]string{}
	for k, v := range typed.Data {
		all[k] = string(v)
	}
	for k, v := range typed.StringData {
		text := must.Get(base64.StdEncoding.DecodeString(v))(t)
		all["string "+k] = string(text)
	}
	for k, v := range typed.Metadata.Annotations {
		all["annotation "+k] = v
	}
	return all
}

func TestHashes_tell_that_a_value_changed_and_no_more(t *testing.T) {
	const object = `{"metadata":{"name":"n","annotations":{"a":"v"}},"data":{"a":"dg==","b":"dg==","c":"","d":null,` +
		`"e":"not base64"},"stringData":{"a":"v"}}`
	got := hashed(t, hashKey, object)
	if want := "[redacted hmac-sha256:"; !strings.HasPrefix(got["a"], want) ||
		len(got["a"]) != len(want)+len("0123456789abcdef]") {
		t.Errorf("got %q", got["a"])
	}
	switch {
	case got["a"] == got["b"]:
		t.Error("equal values of different keys have the same hash")
	case got["a"] != got["string a"]:
		t.Error("a value has another hash as text")
	case got["a"] == got["annotation a"]:
		t.Error("equal values of a key and an annotation have the same hash")
	case got["d"] != "[redacted]" || got["e"] != "[redacted]":
		t.Errorf("what is no value has a hash: %q", got)
	case hashed(t, hashKey+"x", object)["a"] == got["a"]:
		t.Error("another key gives the same hash")
	case hashed(t, hashKey, strings.ReplaceAll(object, "dg==", "dw=="))["a"] == got["a"]:
		t.Error("another value gives the same hash")
	case hashed(t, hashKey, object)["a"] != got["a"]:
		t.Error("the same value gives another hash")
	}
	// The event reference says how to compute them.
	assert.Equal(t, "[redacted hmac-sha256:00d5ad3e4a97e72a]", got["a"])
	assert.Equal(t, "[redacted hmac-sha256:06c607678602d3b6]", got["annotation a"])
}

func TestHashes_do_not_show_their_key(t *testing.T) {
	cfg := config()
	cfg.SecretHashes = redact.NewHashes([]byte(hashKey))
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
		assert.Equal(t, "[redacted]", fmt.Sprintf(verb, cfg.SecretHashes), verb)
		if s := fmt.Sprintf(verb, cfg); strings.Contains(s, hashKey) || strings.Contains(s, fmt.Sprintf("%x", hashKey)) {
			t.Errorf("%s: %s", verb, s)
		}
	}
}

func TestRedact_costs_no_more_memory_than_a_list_of_what_it_found(t *testing.T) {
	e := redacting(t, pods, config(), "spec.containers[*].env[*].value")
	m, c := &sink.Message{}, change(t, source.Updated, "pod.json")
	if n := testing.AllocsPerRun(100, func() {
		require.NoError(t, e.Change(m, c))
	}); n > 3 { // the strings, the stack and the hits
		t.Errorf("%.0f allocations", n)
	}
}

// Where it is not clear what of a body is what, nothing of it becomes an attribute of the rejection.
func TestRejected_takes_nothing_from_a_body_that_is_not_valid(t *testing.T) {
	e := redacting(t, pods, Config{}, "spec.x")
	m := dirty()
	e.Rejected(m,
		ident(source.Updated,
			`{"metadata":{"managedFields":[{"manager":"canary","time":"2026-01-01T00:00:00Z"}]},"spec":{"x":}}`),
		errors.New("no"), 9)
	for _, a := range m.Attributes {
		assert.NotContains(t, a.Value, "canary")
		assert.NotEqual(t, "fieldmanager", a.Name)
	}
}

func TestRedacted_says_that_a_value_in_the_data_was_replaced(t *testing.T) {
	const (
		object   = `{"metadata":{"name":"n","labels":{"a":"v"}},"spec":{"x":"v","z":null}}`
		secret   = `{"metadata":{"name":"n","labels":{"a":"v"}},"data":{"k":"dg=="}}`
		noValues = `{"metadata":{"name":"n"},"data":{},"stringData":null,"type":"Opaque"}`
		applied  = `{"metadata":{"name":"n","annotations":{"` + lastApplied + `":"v"}}}`
	)
	for _, c := range []struct {
		resource source.Resource
		redact   string
		payload  Payload
		object   string
		want     bool
	}{
		{pods, "spec.x", Object, object, true},
		{pods, "spec.none", Object, object, false},
		{pods, "", Object, object, false},
		{pods, "spec.z", Object, object, false}, // null stays
		{pods, "spec.z spec.x", Object, object, true},
		{pods, `metadata.annotations["` + lastApplied + `"]`, Object, applied, false}, // it is left out
		{pods, "metadata.annotations", Object, applied, true},
		{pods, "spec.x", Metadata, object, false},
		{pods, "metadata.labels.a", Metadata, object, true},
		{pods, "metadata.labels.a", Metadata, `{"metadata":"n"}`, false},
		{pods, "spec.x", Metadata, `{"spec":{"x":"v"}}`, false},
		{pods, "spec.x", Change, object, true},
		{pods, "spec.x", MergePatch, object, true},
		{secrets, "", Object, secret, true},
		{secrets, "", Object, noValues, false},
		{secrets, "", Object, `{}`, false},
		{secrets, "", Object, `{"data":`, true}, // nothing of it can be told
		{secrets, "", Metadata, secret, false},
		{secrets, "metadata.labels.a", Metadata, secret, true},
		{secrets, "metadata.labels.a", Object, secret, true},
		{secrets, "metadata.labels.a", Object, noValues, false},
		{secrets, "", JSONPatch, secret, true},
	} {
		for _, mode := range []Mode{Binary, Structured} {
			cfg, m := config(), dirty()
			cfg.Payload, cfg.Mode = c.payload, mode
			e := redacting(t, c.resource, cfg, strings.Fields(c.redact)...)
			require.NoError(t, e.Change(m, ident(source.Updated, c.object)))
			assert.Equal(t, c.want, isRedacted(m), "%s, %q as %s: %s", c.resource, c.redact, c.payload, c.object)
			e.Rejected(m, ident(source.Updated, c.object), errors.New("no"), 1)
			assert.False(t, isRedacted(m), "the data of a rejection has no value of the object")
		}
	}
	cfg, m := config(), dirty()
	cfg.SecretValues = true
	require.NoError(t, redacting(t, secrets, cfg).Change(m, ident(source.Updated, secret)))
	assert.False(t, isRedacted(m), "values are sent")
	missing := ident(source.Deleted, "")
	missing.Body = nil
	require.NoError(t, redacting(t, secrets, config(), "spec.x").Change(m, missing))
	assert.False(t, isRedacted(m), "nothing but the identity is known")
}

// isRedacted reports whether an event says so. In JSON it is a text, as all attributes that are not integers.
func isRedacted(m *sink.Message) bool {
	if m.ContentType == contentStructured {
		var event struct{ Redacted string }
		return json.Unmarshal(m.Data, &event) == nil && event.Redacted == "true"
	}
	return attribute(m, "redacted") == "true"
}

// What a patch does not have cannot be seen in it. The state before is in the data of the payload Change.
func TestRedacted_of_what_is_made_from_the_state_before(t *testing.T) {
	fill := `"fill":"` + strings.Repeat("x", 300) + `"`
	secret := func(label, data string) string {
		return `{"metadata":{"name":"n","annotations":{` + fill + `},"labels":{"a":"` + label + `"}},"data":{` + data + `}}`
	}
	pod := func(label, spec string) string {
		return `{"metadata":{"name":"n","labels":{"a":"` + label + `"}},"spec":{` + spec + `},` + fill + `}`
	}
	const value, another, text = `"k":"dg=="`, `"k":"dw==","l":"dg=="`, `"x":"v"`
	hashes := redact.NewHashes([]byte(hashKey))
	for _, c := range []struct {
		name          string
		resource      source.Resource
		before, after string
		hashes        *redact.Hashes
		patch, change bool
	}{
		{"a Secret's label", secrets, secret("1", value), secret("2", value), nil, false, true},
		{"a Secret's new value", secrets, secret("1", value), secret("1", another), nil, true, true},
		{"a Secret's value with a hash", secrets, secret("1", value), secret("1", `"k":"dw=="`), hashes, true, true},
		{"a Secret's value is gone", secrets, secret("1", value), secret("1", ""), nil, false, true},
		{"a Secret without values", secrets, secret("1", ""), secret("2", ""), nil, false, false},
		{"a label beside a value", pods, pod("1", text), pod("2", text), nil, true, true}, // may be
		{"a value is gone", pods, pod("1", text), pod("1", ""), nil, false, true},
		{"no value", pods, pod("1", ""), pod("2", ""), nil, false, false},
	} {
		for payload, want := range map[Payload]bool{MergePatch: c.patch, JSONPatch: c.patch, Change: c.change} {
			cfg, m := config(), dirty()
			cfg.Payload, cfg.SecretHashes, cfg.SecretAnnotations = payload, c.hashes, []string{"fill"}
			paths := []string{"spec.x"}
			if c.resource == secrets {
				paths = nil
			}
			e := redacting(t, c.resource, cfg, paths...)
			data := must.Get(e.ChangeFrom(m, ident(source.Added, c.before), Old{}, nil))(t)
			old := Old{Data: data, ResourceVersion: "6"}
			must.Get(e.ChangeFrom(m, ident(source.Updated, c.after), old, nil))(t)
			require.Equal(t, string(payload), attribute(m, "payload"), "%s: %s", c.name, m.Data)
			assert.Equal(t, want, isRedacted(m), "%s as %s: %s", c.name, payload, m.Data)
		}
	}
}

// What is kept elsewhere belongs to the event that refers to it.
func TestRedacted_of_an_event_whose_data_is_kept_elsewhere(t *testing.T) {
	e, m := redacting(t, pods, config(), "spec.x"), dirty()
	c := ident(source.Updated, `{"metadata":{"name":"n"},"spec":{"x":"v"}}`)
	for ref, want := range map[string]bool{"": false, "nats-obj:b/n": true} {
		require.NoError(t, e.Reduced(m, c, 5000, ref))
		assert.Equal(t, want, isRedacted(m), "%q", ref)
	}
}
