// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/encode/redact"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// hostile are objects that a scanner which only looks for names would get wrong.
var hostile = []string{
	`{}`,
	` { } `,
	`{"metadata":{}}`,
	`{"metadata":null}`,
	`{"metadata":"managedFields"}`,
	`{"metadata":[{"managedFields":1}]}`,
	`{"metadata":{"managedFields":[]}}`,
	`{"metadata":{"managedFields":null,"name":"n"}}`,
	`{"metadata":{"name":"n","managedFields":{"a":"]}"}}}`,
	`{"metadata":{"name":"n","managedFields":"x","uid":"u"}}`,
	`{"metadata":{"annotations":{"a":"\"managedFields\":[1]","b":"}],\"x\""},"managedFields":[{"manager":"m","time":"2026-01-01T00:00:00Z"}],"name":"n"}}`,
	`{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"a\":\"\\\"\"}\n"},"name":"n"}}`,
	`{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"x","a":"b"},"managedFields":[]}}`,
	`{"metadata":{"annotations":{"a":"b","kubectl.kubernetes.io/last-applied-configuration":"x"},"managedFields":[]}}`,
	`{"metadata":{"annotations":{"a":"b","kubectl.kubernetes.io/last-applied-configuration":"x","c":"d"}}}`,
	`{"metadata":{"annotations":{"kubectl.kubernetes.io\/last-applied-configuration":"x"}}}`,
	`{"metadata":{"annotations":"kubectl.kubernetes.io/last-applied-configuration"}}`,
	`{"metadata":{"\u006danagedFields":[1],"m\u0061nagedFields":2,"name":"\\"}}`,
	`{"met\u0061data":{"managedFields":1}}`,
	`{"spec":{"metadata":{"managedFields":1}},"metadata":{"managedFields":1},"status":{"metadata":{"managedFields":1}}}`,
	`{"managedFields":[1],"metadata":{"labels":{"managedFields":"x"},"managedFields":[1]}}`,
	`{"metadata":{"a":{"managedFields":[1]},"managedFields":[{"managedFields":1}],"b":[{"managedFields":1}]}}`,
	`{"metadata":{"managedFields":1,"managedFields":2}}`,
	`{"metadata":{"managedFields":1,"a":1,"managedFields":2}}`,
	`{"metadata":{"a":1,"managedFields":1,"managedFields":2,"managedFields":3,"managedFields":4,"b":1,"managedFields":5}}`,
	`{"metadata":{"managedFields":1},"metadata":{"managedFields":2,"name":"n"}}`,
	`{"metadata":{"managedFields":1},"x":1,"m\u0065tadata":{"managedFields":2}}`,
	`{"metadata":{"managedFields":1},"metadata":"x"}`,
	`{"metadata":{"annotations":{"a":"1"},"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"x"}}}`,
	"{\n  \"metadata\" : {\n    \"managedFields\" : [ ] ,\n    \"name\" : \"n\"\n  } ,\n  \"spec\" : { }\n}\n",
	"{\"metadata\":\t{\"name\":\"n\"\r\n,\"managedFields\":[{}]\n}}",
	`{"metadata":{"name":"日本語 \\\" 🚀","managedFields":["\\\\","\"","]"]},"d":"metadata"}`,
	`{"metadata":{"managedFields":[{"manager":"a","time":"2026-01-01T00:00:00Z","f":{"k:{\"x\":[1],{":{}}},{"manager":"b","time":"2026-01-02T00:00:00Z","f":{}}]},"spec":{}}`,
	`{"metadata":{"managedFields":[{"manager":"a","time":"2026-01-01T00:00:00Z","f":{"x},{":{},"k},{\"manager\"":{}}},{"manager":"b","time":"2026-01-02T00:00:00Z","f":{}}]},"spec":{}}`,
	`{"metadata":{"managedFields":[{"manager":"a","time":"2026-01-01T00:00:00Z","f":{}}, {"manager":"b","time":"2026-01-02T00:00:00Z","f":{}}]},"spec":{}}`,
	`{"metadata":{"managedFields":[{"manager":"a","time":"2026-01-01T00:00:00Z","f":{}},null,{},{"manager":"b","time":"2026-01-02T00:00:00Z"}],"name":""},"spec":{}}`,
	`{"metadata":{"managedFields":[{"manager":"a","time":"2026-01-01T00:00:00Z","f":{"time":"x","manager":"x"}},{"fieldsV1":{},"time":"2026-01-02T00:00:00Z","manager":"b"}],"name":""},"spec":{}}`,
	`{"metadata":{"managedFields":[{"manager":"a]},\"b","time":"2026-01-01T00:00:00Z","f":{}}],"name":""},"spec":{}}`,
	`{"metadata":{"managedFields":[{"manager":"a","time":"2026-01-01T00:00:00Z","f":{}},{"1":0,"manager":"b","time":"2026-01-02T00:00:00Z"}],"name":""},"spec":{}}`,
	`{"a":"\\","b":"\\\"","metadata":{"managedFields":["\\\""]},"c":-1.5e+3,"d":true,"e":null}`,
}

// tester is what *testing.T and *rapid.T have in common here.
type tester interface {
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Fatal(args ...any)
}

// expected is what the data of an object must mean, by decoding all of it.
func expected(object map[string]any, keepManaged, keepApplied bool) {
	metadata, _ := object["metadata"].(map[string]any)
	if !keepManaged {
		delete(metadata, "managedFields")
	}
	if annotations, ok := metadata["annotations"].(map[string]any); ok && !keepApplied {
		delete(annotations, lastApplied)
	}
}

func decode(b []byte) (map[string]any, error) {
	var o map[string]any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	err := d.Decode(&o)
	return o, err
}

func FuzzSplice(f *testing.F) {
	for _, s := range hostile {
		f.Add([]byte(s))
	}
	for _, file := range []string{"pod.json", "customresource.json", "node.json", "secret.json"} {
		b := body(f, file)
		f.Add(b)
		var indented bytes.Buffer
		require.NoError(f, json.Indent(&indented, b, "", "  "))
		f.Add(indented.Bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, keep := range [][]string{nil, {KeepManagedFields}, {KeepLastApplied}} {
			for _, mode := range []Mode{Binary, Structured} {
				for _, payload := range []Payload{Object, Metadata} {
					cfg := config()
					cfg.Keep, cfg.Mode, cfg.Payload = keep, mode, payload
					checkSplice(t, cfg, b)
				}
			}
		}
	})
}

func checkSplice(t tester, cfg Config, b []byte) {
	c, m := ident(source.Updated, ""), dirty()
	c.Body = source.NewBody(b)
	e := New(source.Stream{Resource: pods}, cfg)
	err := e.Change(m, c)
	e.Rejected(&sink.Message{}, c, errors.New("x"), 1)
	if !json.Valid(b) {
		return
	}
	want, decodeErr := decode(b)
	if decodeErr != nil || want == nil {
		if !errors.Is(err, jsonscan.ErrNotObject) {
			t.Fatalf("%q is no object: error is %v", b, err)
		}
		return
	}
	if err != nil {
		t.Fatalf("%q: %v", b, err)
	}
	// Only what is read: the time and the manager are looked for in what is removed.
	at, manager := lastChange(want)
	expected(want, e.keepManaged, e.keepApplied)
	if cfg.Payload == Metadata {
		metadata, ok := want["metadata"].(map[string]any)
		if !ok {
			metadata = map[string]any{"name": "n", "namespace": "ns", "uid": "u", "resourceVersion": "7"}
		}
		want = map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
	}
	if !json.Valid(m.Data) {
		t.Fatalf("%q became %q, which is not JSON", b, m.Data)
	}
	got, err := decode(m.Data)
	if err != nil {
		t.Fatal(err)
	}
	as := func(name string) any { return attribute(m, name) }
	if cfg.Mode == Structured {
		event := got
		got, _ = event["data"].(map[string]any)
		as = func(name string) any { s, _ := event[name].(string); return s }
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q became %q, which means\n%v, want\n%v", b, m.Data, got, want)
	}
	// It does not matter here which of several members of one name counts.
	if redact.Valid(b) && (as("time") != at || as("fieldmanager") != manager) {
		t.Errorf("%q: time %q, manager %q; want %q, %q", b, as("time"), as("fieldmanager"), at, manager)
	}
}

// lastChange is the time and the manager of an object, by decoding all of it.
func lastChange(object map[string]any) (at, manager string) {
	parse := func(v any) string {
		s, _ := v.(string)
		t, err := time.Parse(time.RFC3339, s)
		if t = t.UTC(); err != nil || t.Year() < 0 || t.Year() > 9999 {
			return ""
		}
		return t.Format(time.RFC3339)
	}
	metadata, _ := object["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	for _, e := range entries {
		if e, ok := e.(map[string]any); ok {
			s := parse(e["time"])
			name, _ := e["manager"].(string)
			switch {
			case s > at:
				at, manager = s, name
			case s == at && name != manager:
				manager = ""
			}
		}
	}
	if at == "" || at == "1970-01-01T00:00:00Z" { // as 0 stands for none
		at, manager = parse(metadata["creationTimestamp"]), ""
	}
	if at == "" {
		at = string(appendMilliseconds(nil, seen))
	}
	return at, manager
}

func TestChange_of_a_hostile_object_removes_what_decoding_it_would(t *testing.T) {
	for _, s := range hostile {
		for _, mode := range []Mode{Binary, Structured} {
			for _, payload := range []Payload{Object, Metadata} {
				cfg := config()
				cfg.Mode, cfg.Payload = mode, payload
				checkSplice(t, cfg, []byte(s))
			}
		}
	}
}

func TestLandmarks_are_found_in_what_an_API_server_sends_for_a_pod_only(t *testing.T) {
	for file, want := range map[string]bool{"pod.json": true, "customresource.json": false} {
		b := body(t, file)
		i := bytes.Index(b, []byte(`"managedFields":[`)) + len(`"managedFields":`)
		var quick, slow walk
		end, ok := quick.landmarks(b, i)
		require.Equal(t, want, ok, "%s: landmarks found", file)
		if !ok {
			continue
		}
		if e := slow.entries(b, i); e != end || quick.changed != slow.changed || !bytes.Equal(quick.manager, slow.manager) {
			t.Errorf("%s: landmarks say %d %s %q, reading says %d %s %q", file, end, quick.changed, quick.manager, e,
				slow.changed, slow.manager)
		}
	}
}

const canary = "CANARY-5ce9"

// secretWith has the canary wherever a Secret has values.
func secretWith(name, value string) string {
	q := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	return `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s","annotations":{"a":` + q(value) + `,"` +
		lastApplied + `":` + q(`{"data":{"x":"`+value+`"}}`) +
		`},"managedFields":[{"manager":"m","time":"2026-01-01T00:00:00Z","fieldsV1":{"f:data":{}}}]},"data":{` + q(name) +
		`:` + q(value) +
		`,"b":null},"stringData":{"c":` + q(value) + `},"type":"Opaque"}`
}

func FuzzSecret(f *testing.F) {
	f.Add([]byte(secretWith("password", canary)))
	f.Add([]byte(`{"data":"` + canary + `"}`))
	f.Add([]byte(`{"data":["` + canary + `"]}`))
	f.Add([]byte(`{"data":{"a":{"b":["` + canary + `"]}}}`))
	f.Add([]byte(`{"d\u0061ta":{"a":"` + canary + `"},"Data":{"a":"` + canary + `"}}`))
	f.Add([]byte(`{"data":{"a":"x"},"data":{"a":"` + canary + `"}}`))
	f.Add([]byte(`{"metadata":{"managedFields":[{"manager":"x\"` + canary))
	f.Add([]byte(`{"metadata":{"managedFields":[{"manager":"` + canary + `"}]},x}`))
	f.Add([]byte(`{"data":{"a":"` + canary + `"`))
	f.Add([]byte(`{"data":{"a":"` + canary + `"}} trailing`))
	f.Add([]byte(`["` + canary + `"]`))
	f.Add([]byte(`{"stringData":{"a":1},` +
		`"metadata":{"annotations":{"kubectl.kubernetes.io\/last-applied-configuration":{"x":"` + canary + `"}}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, mode := range []Mode{Binary, Structured} {
			for _, payload := range []Payload{Object, Metadata} {
				cfg := config()
				cfg.Mode, cfg.Payload, cfg.Keep = mode, payload, []string{KeepManagedFields, KeepLastApplied}
				checkSecret(t, cfg, b)
			}
		}
	})
}

func checkSecret(t tester, cfg Config, b []byte) {
	c, m := ident(source.Updated, ""), dirty()
	c.Body = source.NewBody(b)
	e := New(source.Stream{Resource: secrets}, cfg)
	if err := e.Change(m, c); err != nil {
		t.Fatal(err)
	}
	if !json.Valid(m.Data) {
		t.Fatalf("%q became %q, which is not JSON", b, m.Data)
	}
	if bytes.Contains(render(m), []byte(canary)) && !elsewhere(b) {
		t.Errorf("%q became %s", b, render(m))
	}
	e.Rejected(m, c, errors.New("x"), 1)
	if bytes.Contains(render(m), []byte(canary)) && !elsewhere(b) {
		t.Errorf("%q was rejected as %s", b, render(m))
	}
}

// elsewhere reports whether the canary is in a place where a Secret has no value: in a name, in other metadata, in
// kind, apiVersion or type.
func elsewhere(b []byte) bool {
	o, err := decode(b)
	if err != nil {
		return false
	}
	names := map[string]any{}
	for _, n := range []string{"data", "stringData"} {
		values, _ := o[n].(map[string]any)
		for k := range values {
			names[n+k] = k
		}
		delete(o, n)
	}
	expected(o, true, false)
	for k := range o {
		if k != "metadata" && k != "kind" && k != "apiVersion" && k != "type" && k != "immutable" {
			delete(o, k)
		}
	}
	left, _ := json.Marshal([]any{o, names})
	return bytes.Contains(left, []byte(canary))
}

func TestSecret_values_are_masked_and_nothing_else(t *testing.T) {
	e, m := New(source.Stream{Resource: secrets}, config()), &sink.Message{}
	require.NoError(t, e.Change(m, ident(source.Added, secretWith(`pass"word`, canary))))
	want := `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s","annotations":{"a":"[redacted]"}},` +
		`"data":{"pass\"word":"W3JlZGFjdGVkXQ==","b":"W3JlZGFjdGVkXQ=="},"stringData":{"c":"W3JlZGFjdGVkXQ=="},"type":"Opaque"}`
	assert.Equal(t, want, string(m.Data), "got\n%s", m.Data)
	var typed struct{ Data map[string][]byte }
	if err := json.Unmarshal(m.Data, &typed); err != nil || string(typed.Data["b"]) != "[redacted]" {
		t.Errorf("a typed client reads %q, %v", typed.Data["b"], err)
	}
}

func TestSecret_has_no_annotations_of_another_form(t *testing.T) {
	for _, annotations := range []string{`"` + canary + `"`, `["` + canary + `"]`, `{"a":{"b":"` + canary + `"}}`} {
		m := &sink.Message{}
		c := ident(source.Added, `{"metadata":{"name":"s","annotations":`+annotations+`}}`)
		require.NoError(t, New(source.Stream{Resource: secrets}, config()).Change(m, c))
		assert.NotContains(t, string(m.Data), canary)
	}
}

func TestSecret_loses_the_annotations_that_copy_it(t *testing.T) {
	body := `{"metadata":{"name":"s","annotations":{"a":"b"`
	for _, name := range []string{
		lastApplied, "kapp.k14s.io/original", "objectset.rio.cattle.io/applied", "banzaicloud.com/last-applied",
		"example.com/last-applied-configuration",
	} {
		body += `,"` + name + `":"` + canary + `"`
	}
	body += `,"last-applied":"c"}},"data":{}}`
	cfg := config()
	cfg.Keep, cfg.SecretAnnotations = []string{KeepLastApplied}, []string{"a", lastApplied}
	m := &sink.Message{}
	require.NoError(t, New(source.Stream{Resource: secrets}, cfg).Change(m, ident(source.Added, body)))
	assert.Equal(t, `{"metadata":{"name":"s","annotations":{"a":"b","last-applied":"[redacted]"}},"data":{}}`,
		string(m.Data),
		"got\n%s", m.Data)
}

func TestSecret_that_cannot_be_decoded_is_sent_as_its_identity(t *testing.T) {
	identity := `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"n","namespace":"ns","uid":"u",` +
		`"resourceVersion":"7"}}`
	for _, b := range []string{
		``, `null`, `[]`, `{`, `{"data":{"a":"x"}`, `{"data":{"a":"x"}} {}`, `{"data":"x"}`, `{"data":["x"]}`,
		`{"data":{"a":"x","a":"y"}}`,
		`{"metadata":"x"}`, `{"metadata":{"annotations":{"a":"\xff"}}}`, strings.Repeat(`{"data":`, 20_000),
	} {
		m := &sink.Message{}
		require.NoError(t, New(source.Stream{Resource: secrets}, config()).Change(m, ident(source.Added, b)))
		assert.Equal(t, identity, string(m.Data), "%.40q became %s", b, m.Data)
	}
}

func TestSecrets_of_other_groups_are_objects_like_others(t *testing.T) {
	r := source.Resource{Group: "example.com", Version: "v1", Resource: "secrets", Kind: "Secret"}
	m := &sink.Message{}
	require.NoError(t, New(source.Stream{Resource: r}, config()).Change(m, ident(source.Added, `{"data":{"a":"x"}}`)))
	assert.Equal(t, `{"data":{"a":"x"}}`, string(m.Data), "data is %s", m.Data)
}
