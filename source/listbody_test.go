// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson"
	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson/rawjsontest"
)

func TestNewListBody_has_kind_and_apiVersion(t *testing.T) {
	for _, tc := range []struct {
		raw  string
		res  Resource
		want string
	}{
		{`{"metadata":{"name":"n"},"spec":{}}`, pods, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"n"},"spec":{}}`},
		{`{"metadata":{"name":"n"}}`, deploys, `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"n"}}`},
		{`{}`, nodes, `{"kind":"Node","apiVersion":"v1"}`},
		{"{ \n}", nodes, "{\"kind\":\"Node\",\"apiVersion\":\"v1\" \n}"},
		{`{ "metadata" : {} }`, nodes, `{"kind":"Node","apiVersion":"v1", "metadata" : {} }`},
		{
			`{"spec":{"kind":"x","apiVersion":"y"}}`, nodes,
			`{"kind":"Node","apiVersion":"v1","spec":{"kind":"x","apiVersion":"y"}}`,
		},
		{
			`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{}}`, widgets,
			`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{}}`,
		},
		{
			`{"kind":"Widget","apiVersion":"example.com/v1","metadata":{}}`, widgets,
			`{"kind":"Widget","apiVersion":"example.com/v1","metadata":{}}`,
		},
		{
			`{"action":{"metadata":1},"apiVersion":"example.com/v1","data":[],"kind":"Widget"}`, widgets,
			`{"action":{"metadata":1},"apiVersion":"example.com/v1","data":[],"kind":"Widget"}`,
		},
		{`{"kin\u0064":"Pod","metadata":{}}`, pods, `{"apiVersion":"v1","kin\u0064":"Pod","metadata":{}}`},
		{`{"apiVersion":"v1","metadata":{}}`, pods, `{"kind":"Pod","apiVersion":"v1","metadata":{}}`},
	} {
		b := NewListBody([]byte(tc.raw), tc.res)
		assert.Equal(t, tc.want, string(b.Bytes()), "%s became %s", tc.raw, b.Bytes())
		assert.Equal(t, len(b.Bytes()), ListBodySize([]byte(tc.raw), tc.res),
			"%s: size, and it has %d bytes", tc.raw, len(b.Bytes()))
		assert.EqualValues(t, 1, b.refs.Load(), "references")
		b.Release()
	}
}

// What follows is written by the encoder of the API server.

func TestReadList_makes_the_bodies_that_a_watch_would_show(t *testing.T) {
	typed := &corev1.PodList{
		TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"},
		ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "tok"},
	}
	custom := &unstructured.UnstructuredList{Object: map[string]any{
		"kind": "WidgetList", "apiVersion": "example.com/v1",
		"metadata": map[string]any{"resourceVersion": "7", "continue": "tok"},
	}}
	var typedBodies, customBodies []string
	for i, s := range rawjsontest.Hostile {
		pod := rawjsontest.Pod(i)
		pod.Annotations = map[string]string{"hostile": s, s: "x"}
		widget := rawjsontest.Sorted(t, pod)
		custom.Items = append(custom.Items, *widget)
		customBodies = append(customBodies, string(rawjsontest.ServerObject(t, widget)))
		typedBodies = append(typedBodies, string(rawjsontest.ServerObject(t, pod)))
		pod.TypeMeta = metav1.TypeMeta{}
		typed.Items = append(typed.Items, *pod)
	}
	for _, streaming := range []bool{false, true} {
		for _, tc := range []struct {
			list runtime.Object
			res  Resource
			want []string
		}{{typed, pods, typedBodies}, {custom, widgets, customBodies}} {
			var answer bytes.Buffer
			require.NoError(t, rawjsontest.Codec(streaming).Encode(tc.list, &answer))
			var got []string
			meta, err := rawjson.ReadList(&answer, tc.res.Kind, func(raw []byte) error {
				b := NewListBody(raw, tc.res)
				defer b.Release()
				got = append(got, string(b.Bytes()))
				return nil
			})
			assert.True(t, err == nil && meta.ResourceVersion == "7" && meta.Continue == "tok",
				"%ss, streaming %v: %+v, %v", tc.res.Kind, streaming, meta, err)
			assert.Equal(t, tc.want, got, "%ss, streaming %v", tc.res.Kind, streaming)
		}
	}
}

func FuzzListBody(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"n"}}`))
	f.Add([]byte(`{"apiVersion":"v1","a":[{}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		// A list has no items but objects.
		if raw = bytes.TrimSpace(raw); len(raw) > 0 && raw[0] == '{' && jsontext.Value(raw).IsValid() {
			checkListBody(t, string(raw))
		}
	})
}

// checkListBody checks that what NewListBody adds to an item is valid, counted, and nothing else.
func checkListBody(t *testing.T, raw string) {
	b := NewListBody([]byte(raw), pods)
	defer b.Release()
	require.Len(t, b.Bytes(), ListBodySize([]byte(raw), pods), "%s: %d bytes, announced", raw, len(b.Bytes()))
	var before, after map[string]json.RawMessage
	if json.Unmarshal([]byte(raw), &before) != nil {
		return
	}
	require.NoError(t, json.Unmarshal(b.Bytes(), &after), "%s became %s", raw, b.Bytes())
	for key, value := range before {
		require.Equal(t, value, after[key], "%s became %s", raw, b.Bytes())
		delete(after, key)
	}
	for key := range after {
		require.True(t, key == "kind" || key == "apiVersion", "%s became %s", raw, b.Bytes())
	}
	_, has := before["kind"]
	require.True(t, has || after["kind"] != nil, "%s became %s, without a kind", raw, b.Bytes())
}
