// SPDX-License-Identifier: Apache-2.0

package tail

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDecode_reads_both_modes_alike(t *testing.T) {
	binary := event(t, Updated, `{"a":1}`, map[string]string{"fieldmanager": "k é%", "sampledrate": "3"})
	line := must.Get(binary.AppendJSON(nil))(t)
	again, err := Decode(Message{Stored: sink.Stored{Sequence: 42, Data: line, ContentType: "Application/CloudEvents+JSON; charset=UTF-8"}})
	require.NoError(t, err)
	for _, e := range []*Event{binary, again} {
		if e.Op != Updated || e.Group != "apps" || e.Version != "v1" || e.Resource != "deployments" || string(e.Data) != `{"a":1}` {
			t.Errorf("got %s of %s/%s %s with data %s", e.Op, e.Group, e.Version, e.Resource, e.Data)
		}
		assert.Equal(t, "k é%", e.Attr("fieldmanager"), "fieldmanager")
		assert.Equal(t, "3", e.Attr("sampledrate"), "sampledrate")
	}
	assert.Len(t, again.attributes, len(binary.attributes),
		"structured mode has %d attributes, binary mode", len(again.attributes))
}

func TestDecode_refuses_what_is_no_event(t *testing.T) {
	const structured = "application/cloudevents+json"
	for name, m := range map[string]sink.Stored{
		"nothing":                    {},
		"plain JSON":                 {Data: []byte(`{"type":"t","id":"i"}`)},
		"no id":                      {Attributes: []sink.Attribute{{Name: "type", Value: "t"}}},
		"structured, no JSON":        {ContentType: structured, Data: []byte(`{"type":`)},
		"structured, a list":         {ContentType: structured, Data: []byte(`[]`)},
		"structured, no type":        {ContentType: structured, Data: []byte(`{"id":"i"}`)},
		"structured, broken base 64": {ContentType: structured, Data: []byte(`{"id":"i","type":"t","data_base64":"%"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			if e, err := Decode(Message{Stored: m}); !errors.Is(err, ErrNoEvent) {
				t.Errorf("got %v, %v", e, err)
			}
		})
	}
}

func TestEvent_time_is_when_it_was_seen_else_when_it_happened_else_when_it_was_stored(t *testing.T) {
	happened := at.Add(-time.Second).Truncate(time.Second)
	for _, c := range []struct {
		with map[string]string
		want time.Time
	}{
		{nil, at},
		{map[string]string{"recordedtime": ""}, happened},
		{map[string]string{"recordedtime": "", "time": "yesterday"}, at},
	} {
		if got := event(t, Added, `{}`, c.with).Time(); !got.Equal(c.want) {
			t.Errorf("%v: got %v, want %v", c.with, got, c.want)
		}
	}
}

func TestAppendJSON_has_numbers_where_structured_mode_has_them(t *testing.T) {
	e := event(t, Updated, "{\n \"x\": 1}", map[string]string{"sampledrate": "3", "writerepoch": "x"})
	line, err := e.AppendJSON(nil)
	require.NoError(t, err)
	for _, want := range []string{`{"specversion":"1.0","id":"u1.7",`, `"sampledrate":3,`, `"writerepoch":"x",`, `"resourceversion":"7",`, `,"data":{"x":1}}`} {
		assert.Contains(t, string(line), want, "not in %s", line)
	}
	e.Data = []byte("not JSON\n")
	if line, err = e.AppendJSON(nil); err != nil || !strings.Contains(string(line), `,"data_base64":"bm90IEpTT04K"}`) {
		t.Errorf("got %s, %v", line, err)
	}
}

func TestAppendJSON_is_one_line_of_harmless_JSON_whatever_the_log_holds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Just("\x1b]0;owned\a\u009b31m\u202e\U000e0001\x7f"), rapid.StringOfN(rapid.Rune(), 1, 9, -1))
		value := text.Draw(t, "value")
		quoted, _ := json.Marshal(map[string]string{"v": value})
		as := []sink.Attribute{{Name: "id", Value: "i"}, {Name: "type", Value: "t"}, {Name: "name", Value: value}}
		e := must.Get(Decode(Message{Stored: sink.Stored{Attributes: as, Data: quoted}}))(t)
		line := must.Get(e.AppendJSON(nil))(t)
		require.True(t, printable(string(line)), "not printable: %q", line)
		var got struct{ Data struct{ V string } }
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if utf8.ValidString(value) && got.Data.V != value {
			t.Fatalf("got %q, want %q", got.Data.V, value)
		}
	})
}

func TestPrintable_is_printable_and_leaves_printable_text_alone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		switch got := Printable(s); {
		case !printable(got):
			t.Fatalf("%q became %q", s, got)
		case printable(s) && got != s:
			t.Fatalf("%q was changed to %q", s, got)
		}
	})
}
