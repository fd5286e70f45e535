// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

func TestDecode_reads_what_headers_writes(t *testing.T) {
	n := &names{known: map[string]string{}}
	m := &sink.Message{ContentType: "application/json", Attributes: []sink.Attribute{
		{Name: "id", Value: "u.7"},
		{Name: "datacontenttype", Value: "application/json"},
		{Name: "namespace", Value: ""},
		{Name: "subject", Value: "ä %"},
	}}
	for range 2 { // the second time names are known
		r := &kafka.Record{Offset: 6, Value: []byte("{}"), Time: time.Unix(1, 0)}
		for _, h := range n.headers(nil, m) {
			r.Headers = append(r.Headers, kafka.Header{Name: h.Name, Value: []byte(h.Value)})
		}
		st := Decode(3, r, true)
		want := []sink.Attribute{
			{Name: "id", Value: "u.7"},
			{Name: "subject", Value: "ä %"},
			{Name: "datacontenttype", Value: "application/json"},
		}
		assert.True(t, st.ID == "u.7" && st.Sequence == 7 && st.Partition == 3 && slices.Equal(st.Attributes, want) &&
			string(st.Data) == "{}" && st.Time.Equal(r.Time), "%+v", st)
		assert.Nil(t, Decode(3, r, false).Data, "data that was not asked for")
	}
}

func TestDecode_finds_the_id_of_a_structured_event_and_of_nothing_else(t *testing.T) {
	for event, want := range map[string]string{
		`{"id":"a"}`: "a", `{"data":{"id":"b","x":[1,{"id":"c"}]},"id":"a\u0041"}`: "aA", `{"data":{"id":"b"}}`: "",
		`{"id":7}`: "", `[]`: "", ``: "", `{"id":`: "", `{"id"`: "",
		`{"x":`: "",
	} {
		r := &kafka.Record{Value: []byte(event), Headers: []kafka.Header{{
			Name:  "content-type",
			Value: []byte("application/cloudevents+json; charset=UTF-8"),
		}}}
		st := Decode(0, r, false)
		assert.True(t, st.ID == want && len(st.Attributes) == 0 && string(st.Data) == event, "%s: %+v", event, st)
	}
	other := Decode(0, &kafka.Record{Value: []byte("x"), Headers: []kafka.Header{{Name: "trace", Value: []byte("1")}}},
		false)
	assert.Empty(t, other.ID, "somebody else's record: %+v", other)
	assert.Empty(t, other.Attributes, "somebody else's record: %+v", other)
}

// An object may have a name that looks like that of a marker: what it is, the attribute says.
func TestIsMarker_goes_by_what_the_event_says(t *testing.T) {
	binary := func(name, payload string) []kafka.Header {
		return []kafka.Header{{Name: "content-type", Value: []byte("application/json")}, {Name: name, Value: []byte(payload)}}
	}
	whole := []kafka.Header{{Name: "Content-Type", Value: []byte("application/cloudevents+json")}}
	const gap, writer = "c/core/pods/_/_gap", "c/_/_/_/_writer.p"
	for name, c := range map[string]struct {
		record          kafka.Record
		marker, barrier bool
	}{
		"marker":   {kafka.Record{Key: []byte(gap), Headers: binary("ce_payload", "marker")}, true, false},
		"capitals": {kafka.Record{Key: []byte(gap), Headers: binary("CE_Payload", "marker")}, true, false},
		"structured": {kafka.Record{
			Key: []byte(gap), Headers: whole,
			Value: []byte(`{"data":{"payload":"x"},"payload":"marker"}`),
		}, true, false},
		"an object's name": {kafka.Record{
			Key:     []byte("c/rbac/clusterroles/_/_gap"),
			Headers: binary("ce_payload", "object"),
		}, false, false},
		"one in a structure": {kafka.Record{
			Key: []byte("c/rbac/clusterroles/_/_gap"), Headers: whole,
			Value: []byte(`{"data":{"payload":"marker"},"payload":"object"}`),
		}, false, false},
		"an object": {
			kafka.Record{Key: []byte("c/core/pods/n/web"), Headers: binary("ce_payload", "marker")},
			false,
			false,
		},
		"somebody else's": {kafka.Record{Key: []byte(gap), Value: []byte(`{"payload":"marker"}`)}, false, false},
		"no key":          {kafka.Record{Headers: binary("ce_payload", "marker")}, false, false},
		"barrier":         {kafka.Record{Key: []byte(writer), Headers: binary("ce_payload", "marker")}, false, true},
		"an end like its": {
			kafka.Record{Key: []byte("c/core/" + writer), Headers: binary("ce_payload", "object")},
			false,
			false,
		},
	} {
		m, b := IsMarker(&c.record), IsBarrier(&c.record)
		assert.True(t, m == c.marker && b == c.barrier, "%s: marker %v, barrier %v", name, m, b)
	}
}
