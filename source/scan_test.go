// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson"
	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson/rawjsontest"
)

func TestParseObject_reads_the_identity_however_the_object_is_written(t *testing.T) {
	full := Ident{Namespace: "ns", Name: "n", UID: "u", ResourceVersion: "7"}
	for name, tc := range map[string]struct {
		raw  string
		want Ident
	}{
		"typed order": {`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"n","generateName":"g-","namespace":"ns",` +
			`"uid":"u","resourceVersion":"7"},"spec":{}}`, full},
		"sorted keys": {`{"apiVersion":"v1","kind":"W","metadata":{"annotations":{"a":"b"},` +
			`"creationTimestamp":"2026-01-01T00:00:00Z","generation":1,"labels":{"name":"evil"},"managedFields":[{"fieldsV1":{"f:metadata":{"f:name":{}}}}],"name":"n","namespace":"ns","resourceVersion":"7","uid":"u"},"spec":1}`, full},
		"metadata last": {`{"spec":{"metadata":{"name":"evil","uid":"e","resourceVersion":"e"}},` +
			`"a":[{"metadata":1}],"metadata":{"uid":"u","resourceVersion":"7","namespace":"ns","name":"n"}}`, full},
		"whitespace": {" {\t\"metadata\" \r\n:\n { \"name\" : \"n\" ,\"namespace\": \"ns\" , " +
			"\"uid\":\t\"u\",\"resourceVersion\" :\"7\" } } ", full},
		"scalars in the way": {`{"a":-1.5E+10,"b":true,"c":null,"d":[1,2,"]"],"e":[],"f":{},"metadata":{"generation":12,` +
			`"x":false,"name":"n","namespace":"ns","uid":"u","resourceVersion":"7"}}`, full},
		"braces in strings": {`{"metadata":{"annotations":{"a":"}}}","b":"{[\"","c\\":"\\"},"name":"n","namespace":"ns",` +
			`"uid":"u","resourceVersion":"7"}}`, full},
		"metadata in a string": {`{"a":"\"metadata\":{\"name\":\"evil\"}","metadata":{"name":"n","namespace":"ns",` +
			`"uid":"u","resourceVersion":"7"}}`, full},
		"escaped values": {`{"metadata":{"name":"\u006e","namespace":"n\u0073","uid":"\u0075",` +
			`"resourceVersion":"\u0037"}}`, full},
		"escaped keys": {`{"m\u0065tadata":{"n\u0061me":"n","namesp\u0061ce":"ns","u\u0069d":"u",` +
			`"resourceVersio\u006e":"7"}}`, full},
		"escapes of all kinds": {
			`{"metadata":{"name":"a\"b\\c\/d\n\ud83d\ude00","namespace":"ns","uid":"u\\","resourceVersion":"7"}}`,
			Ident{Namespace: "ns", Name: "a\"b\\c/d\n😀", UID: `u\`, ResourceVersion: "7"},
		},
		"no namespace": {
			`{"metadata":{"name":"n","uid":"u","resourceVersion":"7"}}`,
			Ident{Name: "n", UID: "u", ResourceVersion: "7"},
		},
		"null namespace": {
			`{"metadata":{"namespace":null,"name":"n","uid":"u","resourceVersion":"7"}}`,
			Ident{Name: "n", UID: "u", ResourceVersion: "7"},
		},
		"first of two": {`{"metadata":{"name":"n","name":"m","namespace":"ns","uid":"u","resourceVersion":"7"},` +
			`"metadata":{"name":"o"}}`, full},
		"rest cut off": {`{"metadata":{"name":"n","namespace":"ns","uid":"u","resourceVersion":"7"`, full},
	} {
		t.Run(name, func(t *testing.T) {
			id := must.Get(ParseIdent([]byte(tc.raw), true))(t)
			assert.Equal(t, tc.want, id)
		})
	}
}

func TestParseIdent_of_a_cluster_scoped_resource_reads_no_namespace(t *testing.T) {
	for _, raw := range []string{
		`{"metadata":{"name":"n","uid":"u","resourceVersion":"7"`,
		`{"metadata":{"namespace":"ns","name":"n","uid":"u","resourceVersion":"7"}}`,
		`{"metadata":{"name":"n","uid":"u","resourceVersion":"7","namespace":"ns"}}`,
	} {
		id := must.Get(ParseIdent([]byte(raw), false))(t)
		want := (Ident{Name: "n", UID: "u", ResourceVersion: "7"})
		assert.Equal(t, want, id, raw)
	}
}

func TestParseIdent_refuses(t *testing.T) {
	for raw, want := range map[string]string{
		``:                          "malformed JSON",
		`[]`:                        "malformed JSON",
		`null`:                      "malformed JSON",
		`{`:                         "malformed JSON",
		`{"metadata"`:               "malformed JSON",
		`{"metadata":`:              "malformed JSON",
		`{"metadata":[]}`:           "malformed JSON",
		`{"metadata":{"name"}}`:     "malformed JSON",
		`{"metadata":{"name":1}}`:   "malformed JSON",
		`{"metadata":{"name":"n}}`:  "malformed JSON",
		`{"metadata":{"name":"n"]`:  "malformed JSON",
		`{"metadata":{"x":}}`:       "malformed JSON",
		`{"a":{"b":[},"metadata"`:   "malformed JSON",
		`{"a":1 "metadata":{}}`:     "malformed JSON",
		`{metadata:{}}`:             "malformed JSON",
		`{}`:                        "object has no metadata.name",
		`{"metadata":null}`:         "object has no metadata.name",
		`{"metadata":{}}`:           "object has no metadata.name",
		`{"metadata":{"name":""}}`:  "object has no metadata.name",
		`{"metadata":{"name":"n"}}`: `object "n" has no metadata.uid`,
		`{"metadata":{"name":"n","uid":"u","resourceVersion":null}}`:       `object "n" has no metadata.resourceVersion`,
		`{"metadata":{"name":"\x","uid":"u","resourceVersion":"7"}}`:       "malformed JSON",
		`{"metadata":{"\x":"n","name":"n","uid":"u","resourceVersion":1}}`: "malformed JSON",
	} {
		if id, err := ParseIdent([]byte(raw), true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %+v, %v; want an error with %q", raw, id, err, want)
		}
	}
}

func TestParseObject_of_a_cut_object_is_right_or_an_error(t *testing.T) {
	for _, raw := range [][]byte{
		rawjsontest.ServerObject(t, rawjsontest.Pod(1)),
		rawjsontest.ServerObject(t, rawjsontest.Sorted(t, rawjsontest.Pod(1))),
	} {
		want := must.Get(ParseIdent(raw, true))(t)
		for n := range raw {
			// A copy of exactly this size: a look beyond it panics.
			got, err := ParseIdent(bytes.Clone(raw[:n:n]), true)
			require.True(t, err != nil || got == want, "first %d bytes: got %+v", n, got)
		}
	}
}

// metaOf is the truth that encoding/json tells. It is not ok where encoding/json and the scanner may differ: invalid
// JSON, equal members, invalid UTF-8, other types.
func metaOf(raw []byte) (id Ident, ok bool) {
	if !utf8.Valid(raw) || !jsontext.Value(raw).IsValid() {
		return Ident{}, false
	}
	// Maps, because structs of encoding/json take "NAME" for "name".
	var top, members map[string]json.RawMessage
	if json.Unmarshal(raw, &top) != nil || top == nil {
		return Ident{}, false
	}
	if m, has := top["metadata"]; has && json.Unmarshal(m, &members) != nil {
		return Ident{}, false
	}
	for key, to := range map[string]*string{
		"namespace": &id.Namespace, "name": &id.Name, "uid": &id.UID,
		"resourceVersion": &id.ResourceVersion,
	} {
		if v, has := members[key]; has && json.Unmarshal(v, to) != nil {
			return Ident{}, false
		}
	}
	return id, true
}

func checkAgainstEncodingJSON(t interface{ Fatalf(string, ...any) }, raw []byte) {
	want, ok := metaOf(raw)
	for _, namespaced := range []bool{true, false} {
		got, err := ParseIdent(raw, namespaced)
		if !ok {
			continue
		}
		if !namespaced {
			want.Namespace = ""
		}
		complete := want.Name != "" && want.UID != "" && want.ResourceVersion != ""
		if complete != (err == nil) {
			t.Fatalf("%s: error is %v, encoding/json has %+v", raw, err, want)
		}
		if err == nil && got != want {
			t.Fatalf("%s: got %+v, encoding/json has %+v", raw, got, want)
		}
	}
	version, err := rawjson.Version(raw)
	if ok && (version != want.ResourceVersion || (err == nil) != (version != "")) {
		t.Fatalf("%s: version %q, %v; encoding/json has %q", raw, version, err, want.ResourceVersion)
	}
}

// anyObject draws the JSON of an object: members in any order, rawjsontest.Hostile strings, with or without whitespace.
func anyObject(t *rapid.T) []byte {
	str := rapid.OneOf(rapid.SampledFrom(rawjsontest.Hostile), rapid.String())
	value := rapid.Custom(func(t *rapid.T) any {
		return rapid.SampledFrom([]any{
			rapid.Float64().Draw(t, "number"), nil, true, str.Draw(t, "string"),
			[]string{str.Draw(t, "element"), "metadata"},
			map[string]any{"metadata": map[string]string{"name": str.Draw(t, "deep")}, str.Draw(t, "key"): []any{}},
		}).Draw(t, "value")
	})
	extra := func() map[string]any {
		key := rapid.OneOf(str, rapid.SampledFrom([]string{"annotations", "labels", "Name", "spec", "names", "kind"}))
		return rapid.MapOfN(key, value, 0, 4).Draw(t, "members")
	}
	metadata := extra()
	for _, key := range []string{"namespace", "name", "uid", "resourceVersion"} {
		metadata[key] = str.Draw(t, key)
	}
	top := extra()
	top["metadata"] = json.RawMessage(shuffled(t, metadata))
	raw := shuffled(t, top)
	if rapid.Bool().Draw(t, "indented") {
		var b bytes.Buffer
		require.NoError(t, json.Indent(&b, raw, "\r", "\t "))
		return b.Bytes()
	}
	return raw
}

// shuffled encodes an object with its members in any order.
func shuffled(t *rapid.T, members map[string]any) []byte {
	b := []byte{'{'}
	for _, key := range rapid.Permutation(slices.Sorted(maps.Keys(members))).Draw(t, "order") {
		member := must.Get(json.Marshal(map[string]any{key: members[key]}))(t)
		b = append(append(b, member[1:len(member)-1]...), ',')
	}
	b[len(b)-1] = '}'
	return b
}

func TestParseObject_agrees_with_encoding_json(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkAgainstEncodingJSON(t, anyObject(t)) })
}

func FuzzIdent(f *testing.F) {
	f.Add(rawjsontest.ServerObject(f, rawjsontest.Pod(1)))
	f.Add(rawjsontest.ServerObject(f, rawjsontest.Sorted(f, rawjsontest.Pod(1))))
	f.Add([]byte(`{"met\u0061data":{"name":"a\"b","namespace":null,"uid":"u","resourceVersion":"7","x":[{}]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) { checkAgainstEncodingJSON(t, raw) })
}

func TestParseIdent_allocates_one_string_for_everything(t *testing.T) {
	raw := rawjsontest.ServerObject(t, rawjsontest.Pod(1))
	assert.EqualValues(t, 1, testing.AllocsPerRun(100, func() { _, _ = ParseIdent(raw, true) }), "allocations")
}

func TestParseVersion_needs_nothing_else(t *testing.T) {
	raw := `{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"1529","creationTimestamp":null,` +
		`"annotations":{"k8s.io/initial-events-end":"true"}},"spec":{"containers":null}}`
	version, err := rawjson.Version([]byte(raw))
	assert.True(t, version == "1529" && err == nil, "got %q, %v", version, err)
	version, err = rawjson.Version([]byte(`{"metadata":{}}`))
	assert.Error(t, err, "no error for an object without a version, but %q", version)
}

func TestParseStatus_always_returns_a_failure(t *testing.T) {
	got := rawjson.ParseStatus([]byte(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
		`"message":"too old resource version: 72 (90)","reason":"Expired","code":410}`))
	assert.True(t, got.Code == 410 && got.Reason == metav1.StatusReasonExpired &&
		got.Message == "too old resource version: 72 (90)", "got %+v", got)
	for _, raw := range []string{`{"kind":"Pod"}`, `{}`, `{"kind":"Status","code":"x"}`, `{`} {
		if got := rawjson.ParseStatus([]byte(raw)); got.Code != 500 || got.Status != metav1.StatusFailure ||
			got.Message == "" {
			t.Errorf("%s: got %+v", raw, got)
		}
	}
}
