// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson/rawjsontest"
)

// readAll reads a list and copies its items.
func readAll(r io.Reader) (items []string, meta ListMeta, err error) {
	meta, err = ReadList(r, "Pod", func(raw []byte) error {
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
		meta  ListMeta
	}{
		"typed order": {
			`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"tok","remainingItemCount":5},"items":[{"a":1},{}]}` + "\n",
			[]string{`{"a":1}`, `{}`},
			ListMeta{ResourceVersion: "7", Continue: "tok", RemainingItemCount: &five},
		},
		"sorted keys": {
			`{"apiVersion":"v1","items":[{"a":1}, {"b":"]}"}],"kind":"WList","metadata":{"continue":"","resourceVersion":"7"}}`,
			[]string{`{"a":1}`, `{"b":"]}"}`},
			ListMeta{ResourceVersion: "7"},
		},
		"no items": {
			`{"kind":"L","metadata":{"resourceVersion":"7"},"items":[]}`, nil,
			ListMeta{ResourceVersion: "7"},
		},
		"items null": {
			`{"kind":"L","metadata":{"resourceVersion":"7"},"items":null}`, nil,
			ListMeta{ResourceVersion: "7"},
		},
		"items absent":    {`{"kind":"L","metadata":{"resourceVersion":"7"}}`, nil, ListMeta{ResourceVersion: "7"}},
		"metadata absent": {`{"kind":"L","items":[{}]}`, []string{"{}"}, ListMeta{}},
		"metadata null":   {`{"kind":"L","metadata":null,"items":[]}`, nil, ListMeta{}},
		"other members": {
			`{"x":[{"items":[1]}],"metadata":{"y":{},"resourceVersion":"7"},"items":[{}],"z":null}`,
			[]string{"{}"},
			ListMeta{ResourceVersion: "7"},
		},
		"whitespace": {" {\n \"items\" : [ {\n} ,\t{ \"a\" : 1 } ] , \"metadata\" : { \"resourceVersion\" : " +
			"\"7\" } } \n ", []string{"{\n}", `{ "a" : 1 }`}, ListMeta{ResourceVersion: "7"}},
		"escaped names": {
			`{"it\u0065ms":[{}],"met\u0061data":{"resourceVersion":"7"}}`,
			[]string{"{}"},
			ListMeta{ResourceVersion: "7"},
		},
		"equal members in an item": {`{"items":[{"a":1,"a":2}]}`, []string{`{"a":1,"a":2}`}, ListMeta{}},
		"invalid UTF-8 in an item": {"{\"items\":[{\"a\":\"\xff\"}]}", []string{"{\"a\":\"\xff\"}"}, ListMeta{}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []io.Reader{
				strings.NewReader(tc.body), iotest.OneByteReader(strings.NewReader(tc.body)),
				iotest.DataErrReader(strings.NewReader(tc.body)),
			} {
				items, meta := must.Get2(readAll(r))(t)
				assert.Equal(t, tc.items, items, "items")
				assert.Equal(t, tc.meta, meta)
			}
		})
	}
}

func TestReadList_returns_a_Status_as_the_error_it_is(t *testing.T) {
	expired := `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old",` +
		`"reason":"Expired","details":{"retryAfterSeconds":3},"code":410}`
	forbidden := `{"apiVersion":"v1","code":403,"kind":"Status","message":"no","metadata":{},"reason":"Forbidden",` +
		`"status":"Failure"}`
	for body, is := range map[string]func(error) bool{
		expired:   apierrors.IsResourceExpired,
		forbidden: apierrors.IsForbidden,
	} {
		items, _, err := readAll(strings.NewReader(body))
		require.True(t, is(err), body)
		assert.Empty(t, items, body)
	}
	_, _, err := readAll(strings.NewReader(expired))
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
		if items, meta, err := readAll(strings.NewReader(body)); err == nil || !strings.Contains(err.Error(), want) {
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
			_, _, err := readAll(strings.NewReader(body[:n]))
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, body[:n])
			require.NotErrorIs(t, err, io.EOF, body[:n])
		}
	}
}

func TestReadList_passes_on_errors(t *testing.T) {
	cause := errors.New("connection reset")
	_, _, err := readAll(io.MultiReader(strings.NewReader(`{"items":[{},`), iotest.ErrReader(cause)))
	assert.ErrorIs(t, err, cause, "the reader's error")
	seen := 0
	_, err = ReadList(strings.NewReader(`{"items":[{},{},{}]}`), "Pod", func([]byte) error {
		if seen++; seen == 2 {
			return io.EOF
		}
		return nil
	})
	require.ErrorIs(t, err, io.EOF, "item's error became %v after %d items", err, seen)
	assert.Equal(t, 2, seen, "item's error became %v after %d items", err, seen)
}

func TestReadList_hands_over_items_while_it_reads(t *testing.T) {
	item := rawjsontest.ServerObject(t, rawjsontest.Pod(1))
	const n = 1000
	body := io.MultiReader(strings.NewReader(`{"items":[`), bytes.NewReader(bytes.Repeat(append(item, ','), n)),
		strings.NewReader(`{}],"metadata":{"resourceVersion":"7"}}`))
	r := &rawjsontest.Tally{Reader: body}
	items := 0
	meta, err := ReadList(r, "Pod", func(raw []byte) error {
		if ahead := r.Bytes - items*len(item); ahead > 4*bufferSize {
			return fmt.Errorf("item %d comes after %d more bytes", items, ahead)
		}
		items++
		return nil
	})
	assert.True(t, err == nil && items == n+1 && meta.ResourceVersion == "7", "%d items, %+v, %v", items, meta, err)
	assert.LessOrEqual(t, r.Reads, r.Bytes/bufferSize*5/4+5, "reads for %d bytes", r.Bytes)
}

func FuzzList(f *testing.F) {
	f.Add([]byte(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","remainingItemCount":2},` +
		`"items":[{"metadata":{"name":"n"}},{}]}`))
	f.Add([]byte(`{"apiVersion":"v1","items":[{"apiVersion":"v1","a":[{}]}],"kind":"WList","metadata":{"continue":"t"}} `))
	f.Add([]byte(`{"kind":"Status","metadata":null,"items":null,"code":410}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		items, meta, err := readAll(bytes.NewReader(body))
		again, metaAgain, errAgain := readAll(iotest.OneByteReader(bytes.NewReader(body)))
		if !slices.Equal(items, again) || meta.ResourceVersion != metaAgain.ResourceVersion ||
			(err == nil) != (errAgain == nil) {
			t.Fatalf("byte by byte: %q, %+v, %v; else %q, %+v, %v", again, metaAgain, errAgain, items, meta, err)
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
		if itemsErr := json.Unmarshal(orNull(want["items"]), &wantItems); err == nil &&
			(itemsErr != nil || len(items) != len(wantItems)) {
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
