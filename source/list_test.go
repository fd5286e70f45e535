// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// readAll reads a list and copies its items.
func readAll(r io.Reader, res Resource) (items []string, meta listMeta, err error) {
	meta, err = readList(r, res, func(raw []byte) error {
		items = append(items, string(raw))
		return nil
	})
	return items, meta, err
}

func TestReadList_reads_a_list_however_it_is_written(t *testing.T) {
	five := int64(5)
	for name, tc := range map[string]struct {
		body  string
		items []string
		meta  listMeta
	}{
		"typed order": {
			`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"tok","remainingItemCount":5},"items":[{"a":1},{}]}` + "\n",
			[]string{`{"a":1}`, `{}`},
			listMeta{ResourceVersion: "7", Continue: "tok", RemainingItemCount: &five},
		},
		"sorted keys": {
			`{"apiVersion":"v1","items":[{"a":1}, {"b":"]}"}],"kind":"WList","metadata":{"continue":"","resourceVersion":"7"}}`,
			[]string{`{"a":1}`, `{"b":"]}"}`},
			listMeta{ResourceVersion: "7"},
		},
		"no items":                 {`{"kind":"L","metadata":{"resourceVersion":"7"},"items":[]}`, nil, listMeta{ResourceVersion: "7"}},
		"items null":               {`{"kind":"L","metadata":{"resourceVersion":"7"},"items":null}`, nil, listMeta{ResourceVersion: "7"}},
		"items absent":             {`{"kind":"L","metadata":{"resourceVersion":"7"}}`, nil, listMeta{ResourceVersion: "7"}},
		"metadata absent":          {`{"kind":"L","items":[{}]}`, []string{"{}"}, listMeta{}},
		"metadata null":            {`{"kind":"L","metadata":null,"items":[]}`, nil, listMeta{}},
		"other members":            {`{"x":[{"items":[1]}],"metadata":{"y":{},"resourceVersion":"7"},"items":[{}],"z":null}`, []string{"{}"}, listMeta{ResourceVersion: "7"}},
		"whitespace":               {" {\n \"items\" : [ {\n} ,\t{ \"a\" : 1 } ] , \"metadata\" : { \"resourceVersion\" : \"7\" } } \n ", []string{"{\n}", `{ "a" : 1 }`}, listMeta{ResourceVersion: "7"}},
		"escaped names":            {`{"it\u0065ms":[{}],"met\u0061data":{"resourceVersion":"7"}}`, []string{"{}"}, listMeta{ResourceVersion: "7"}},
		"equal members in an item": {`{"items":[{"a":1,"a":2}]}`, []string{`{"a":1,"a":2}`}, listMeta{}},
		"invalid UTF-8 in an item": {"{\"items\":[{\"a\":\"\xff\"}]}", []string{"{\"a\":\"\xff\"}"}, listMeta{}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(tc.body), iotest.OneByteReader(strings.NewReader(tc.body)), iotest.DataErrReader(strings.NewReader(tc.body))} {
				items, meta := must.Get2(readAll(r, pods))(t)
				assert.Equal(t, tc.items, items, "items")
				assert.Equal(t, tc.meta, meta)
			}
		})
	}
}

func TestReadList_returns_a_Status_as_the_error_it_is(t *testing.T) {
	expired := `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old","reason":"Expired","details":{"retryAfterSeconds":3},"code":410}`
	forbidden := `{"apiVersion":"v1","code":403,"kind":"Status","message":"no","metadata":{},"reason":"Forbidden","status":"Failure"}`
	for body, is := range map[string]func(error) bool{expired: apierrors.IsResourceExpired, forbidden: apierrors.IsForbidden} {
		items, _, err := readAll(strings.NewReader(body), pods)
		require.True(t, is(err), body)
		assert.Empty(t, items, body)
	}
	_, _, err := readAll(strings.NewReader(expired), pods)
	seconds, ok := apierrors.SuggestsClientDelay(err)
	assert.True(t, ok && seconds == 3 && err.Error() == "too old", "details are lost: %#v", err)
}

func TestReadList_refuses(t *testing.T) {
	for body, want := range map[string]string{
		`null`:                              "decode PodList: ",
		`[]`:                                "decode PodList: ",
		`<html>`:                            "decode PodList: ",
		`{"items":{}}`:                      "decode PodList: ",
		`{"items":[1]}`:                     "an item is no object but \"1\"",
		`{"items":[{}],"metadata":[]}`:      "decode PodList: ",
		`{"metadata":{"continue":1}}`:       "decode PodList: ",
		`{"items":[{}{}]}`:                  "decode PodList: ",
		`{"items":[{"a":}]}`:                "decode PodList: ",
		`{"items":[{"a":[}]}`:               "decode PodList: ",
		`{"items":[],}`:                     "decode PodList: ",
		`{"items":[]}{}`:                    "more than one JSON value",
		`{"items":[]}]`:                     "decode PodList: ",
		`{"kind":"PodList","items":"\ud8"}`: "decode PodList: ",
	} {
		if items, meta, err := readAll(strings.NewReader(body), pods); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %q, %+v, %v; want an error with %q", body, items, meta, err, want)
		}
	}
}

func TestReadList_of_a_cut_answer_ends_in_ErrUnexpectedEOF(t *testing.T) {
	for _, body := range []string{
		`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","remainingItemCount":12},"items":[{"a":"\u00e4"},{"b":[1,true]}]}`,
		`{"apiVersion":"v1", "items": null, "kind":"Status","code":410}`,
	} {
		for n := range body {
			_, _, err := readAll(strings.NewReader(body[:n]), pods)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, body[:n])
			require.NotErrorIs(t, err, io.EOF, body[:n])
		}
	}
}

func TestReadList_passes_on_errors(t *testing.T) {
	cause := errors.New("connection reset")
	_, _, err := readAll(io.MultiReader(strings.NewReader(`{"items":[{},`), iotest.ErrReader(cause)), pods)
	assert.ErrorIs(t, err, cause, "the reader's error")
	seen := 0
	_, err = readList(strings.NewReader(`{"items":[{},{},{}]}`), pods, func([]byte) error {
		if seen++; seen == 2 {
			return io.EOF
		}
		return nil
	})
	require.ErrorIs(t, err, io.EOF, "item's error became %v after %d items", err, seen)
	assert.Equal(t, 2, seen, "item's error became %v after %d items", err, seen)
}

func TestReadList_hands_over_items_while_it_reads(t *testing.T) {
	item := serverObject(t, testPod(1))
	const n = 1000
	body := io.MultiReader(strings.NewReader(`{"items":[`), bytes.NewReader(bytes.Repeat(append(item, ','), n)), strings.NewReader(`{}],"metadata":{"resourceVersion":"7"}}`))
	r := &tally{Reader: body}
	items := 0
	meta, err := readList(r, pods, func(raw []byte) error {
		if ahead := r.read - items*len(item); ahead > 4*frameBuffer {
			return fmt.Errorf("item %d comes after %d more bytes", items, ahead)
		}
		items++
		return nil
	})
	assert.True(t, err == nil && items == n+1 && meta.ResourceVersion == "7", "%d items, %+v, %v", items, meta, err)
	assert.LessOrEqual(t, r.reads, r.read/frameBuffer*5/4+5, "reads for %d bytes", r.read)
}

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
		{`{"spec":{"kind":"x","apiVersion":"y"}}`, nodes, `{"kind":"Node","apiVersion":"v1","spec":{"kind":"x","apiVersion":"y"}}`},
		{`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{}}`, widgets, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{}}`},
		{`{"kind":"Widget","apiVersion":"example.com/v1","metadata":{}}`, widgets, `{"kind":"Widget","apiVersion":"example.com/v1","metadata":{}}`},
		{`{"action":{"metadata":1},"apiVersion":"example.com/v1","data":[],"kind":"Widget"}`, widgets, `{"action":{"metadata":1},"apiVersion":"example.com/v1","data":[],"kind":"Widget"}`},
		{`{"kin\u0064":"Pod","metadata":{}}`, pods, `{"apiVersion":"v1","kin\u0064":"Pod","metadata":{}}`},
		{`{"apiVersion":"v1","metadata":{}}`, pods, `{"kind":"Pod","apiVersion":"v1","metadata":{}}`},
	} {
		b := newListBody([]byte(tc.raw), tc.res)
		assert.Equal(t, tc.want, string(b.Bytes()), "%s became %s", tc.raw, b.Bytes())
		assert.Equal(t, len(b.Bytes()), bodySize([]byte(tc.raw), tc.res),
			"%s: size, and it has %d bytes", tc.raw, len(b.Bytes()))
		assert.EqualValues(t, 1, b.refs.Load(), "references")
		b.Release()
	}
}

// What follows is written by the encoder of the API server.

func TestReadList_makes_the_bodies_that_a_watch_would_show(t *testing.T) {
	typed := &corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "tok"}}
	custom := &unstructured.UnstructuredList{Object: map[string]any{
		"kind": "WidgetList", "apiVersion": "example.com/v1", "metadata": map[string]any{"resourceVersion": "7", "continue": "tok"},
	}}
	var typedBodies, customBodies []string
	for i, s := range hostile {
		pod := testPod(i)
		pod.Annotations = map[string]string{"hostile": s, s: "x"}
		widget := sorted(t, pod)
		custom.Items = append(custom.Items, *widget)
		customBodies = append(customBodies, string(serverObject(t, widget)))
		typedBodies = append(typedBodies, string(serverObject(t, pod)))
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
			require.NoError(t, codec(streaming).Encode(tc.list, &answer))
			var got []string
			meta, err := readList(&answer, tc.res, func(raw []byte) error {
				b := newListBody(raw, tc.res)
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

func FuzzList(f *testing.F) {
	f.Add([]byte(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","remainingItemCount":2},"items":[{"metadata":{"name":"n"}},{}]}`))
	f.Add([]byte(`{"apiVersion":"v1","items":[{"apiVersion":"v1","a":[{}]}],"kind":"WList","metadata":{"continue":"t"}} `))
	f.Add([]byte(`{"kind":"Status","metadata":null,"items":null,"code":410}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		items, meta, err := readAll(bytes.NewReader(body), pods)
		again, metaAgain, errAgain := readAll(iotest.OneByteReader(bytes.NewReader(body)), pods)
		if !slices.Equal(items, again) || meta.ResourceVersion != metaAgain.ResourceVersion || (err == nil) != (errAgain == nil) {
			t.Fatalf("byte by byte: %q, %+v, %v; else %q, %+v, %v", again, metaAgain, errAgain, items, meta, err)
		}
		for _, raw := range items {
			checkListBody(t, raw)
		}
		var status apierrors.APIStatus
		// The truth of equal members is a matter of opinion.
		if !jsontext.Value(body).IsValid() || errors.As(err, &status) {
			return
		}
		var want map[string]json.RawMessage
		var wantItems []map[string]json.RawMessage
		if json.Unmarshal(body, &want) != nil || want == nil {
			return
		}
		if itemsErr := json.Unmarshal(orNull(want["items"]), &wantItems); err == nil && (itemsErr != nil || len(items) != len(wantItems)) {
			t.Fatalf("got %q, encoding/json has %s", items, want["items"])
		}
		var wantMeta map[string]json.RawMessage
		require.True(t, err != nil || json.Unmarshal(orNull(want["metadata"]), &wantMeta) == nil,
			"no error for metadata %s", want["metadata"])
	})
}

func orNull(raw json.RawMessage) []byte {
	if raw == nil {
		return []byte("null")
	}
	return raw
}

// checkListBody checks that what newListBody adds to an item is valid, counted, and nothing else.
func checkListBody(t *testing.T, raw string) {
	b := newListBody([]byte(raw), pods)
	defer b.Release()
	require.Len(t, b.Bytes(), bodySize([]byte(raw), pods), "%s: %d bytes, announced", raw, len(b.Bytes()))
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

// A stream can be ended while it watches, while it is refused, and before all that; what was read before is delivered.
func TestReader_ends_when_it_is_asked_to_with_everything_delivered(t *testing.T) {
	for name, c := range map[string]struct {
		away bool
		done func(*recorder) bool
		want string
	}{
		"while it watches": {done: func(r *recorder) bool { return slices.Contains(r.seen(), "updated a@35 watch") }, want: "updated a@35 watch"},
		"at once":          {done: func(*recorder) bool { return true }},
		"while it fails":   {away: true, done: func(r *recorder) bool { return r.counted("not-found") > 3 }},
	} {
		must.RunInBubble(t, name, func(t *testing.T) {
			server := newCluster(t, 40, write{rev: 10, name: "a", uid: "ua"}, write{rev: 35, name: "a", uid: "ua"})
			server.oldest = 20
			if c.away {
				server.fault = func(int, url.Values) *step { return &step{status: http.StatusNotFound} }
			}
			r := &recorder{resume: "30", known: []Ident{{Namespace: "default", Name: "a", UID: "ua", ResourceVersion: "10"}}}
			end, ended := make(chan struct{}), false
			got, err := runReader(t, Reader{Client: server.script.client(), Stream: configMaps, End: end}, r, func() bool {
				r.mu.Lock()
				over := r.over
				r.mu.Unlock()
				if !ended && c.done(r) {
					ended = true
					close(end)
				}
				return over
			})
			assert.ErrorIs(t, err, ErrEnded, "it ended")
			assert.True(t, c.want == "" || slices.Contains(got, c.want), "got %v", got)
			assert.Empty(t, r.open, "tickets are open")
		})
	}
}
