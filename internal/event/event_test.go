// SPDX-License-Identifier: Apache-2.0

package event

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

func TestDecode_reads_both_modes_alike(t *testing.T) {
	binary := change(t, Updated, `{"a":1}`, map[string]string{"fieldmanager": "k é%", "sampledrate": "3"})
	line := must.Get(binary.AppendJSON(nil))(t)
	again, err := Decode(Message{Stored: sink.Stored{
		Sequence: 42, Data: line,
		ContentType: "Application/CloudEvents+JSON; charset=UTF-8",
	}})
	require.NoError(t, err)
	for _, e := range []*Event{binary, again} {
		if e.Op != Updated || e.Group != "apps" || e.Version != "v1" || e.Resource != "deployments" ||
			string(e.Data) != `{"a":1}` {
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
			e, err := Decode(Message{Stored: m})
			assert.ErrorIs(t, err, ErrNoEvent, "got %v", e)
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
		got := change(t, Added, `{}`, c.with).Time()
		assert.True(t, got.Equal(c.want), "%v: got %v, want %v", c.with, got, c.want)
	}
}

func TestAppendJSON_has_numbers_where_structured_mode_has_them(t *testing.T) {
	e := change(t, Updated, "{\n \"x\": 1}", map[string]string{"sampledrate": "3", "writerterm": "x"})
	line, err := e.AppendJSON(nil)
	require.NoError(t, err)
	for _, want := range []string{
		`{"specversion":"1.0","id":"u1.1795212000.7.0",`, `"sampledrate":3,`, `"writerterm":"x",`, `"resourceversion":"7",`,
		`,"data":{"x":1}}`,
	} {
		assert.Contains(t, string(line), want, "not in %s", line)
	}
	e.Data = []byte("not JSON\n")
	if line, err = e.AppendJSON(nil); err != nil || !strings.Contains(string(line), `,"data_base64":"bm90IEpTT04K"}`) {
		t.Errorf("got %s, %v", line, err)
	}
}

func TestAppendJSON_is_one_line_of_harmless_JSON_whatever_the_log_holds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Just("\x1b]0;owned\a\u009b31m\u202e\U000e0001\x7f"),
			rapid.StringOfN(rapid.Rune(), 1, 9, -1))
		value := text.Draw(t, "value")
		quoted, _ := json.Marshal(map[string]string{"v": value})
		as := []sink.Attribute{{Name: "id", Value: "i"}, {Name: "type", Value: "t"}, {Name: "name", Value: value}}
		e := must.Get(Decode(Message{Stored: sink.Stored{Attributes: as, Data: quoted}}))(t)
		line := must.Get(e.AppendJSON(nil))(t)
		require.Equal(t, -1, strings.IndexFunc(string(line), func(r rune) bool { return !strconv.IsPrint(r) }),
			"not printable: %q", line)
		var got struct{ Data struct{ V string } }
		err := json.Unmarshal(line, &got)
		require.NoError(t, err, "%v: %s", err, line)
		require.True(t, !utf8.ValidString(value) || got.Data.V == value, "got %q, want %q", got.Data.V, value)
	})
}
