// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"slices"
	"testing"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/stretchr/testify/assert"
)

func TestDecode_reads_what_headers_writes(t *testing.T) {
	n := &names{known: map[string]string{}}
	m := &sink.Message{ContentType: "application/json", Attributes: []sink.Attribute{
		{Name: "id", Value: "u.7"}, {Name: "datacontenttype", Value: "application/json"}, {Name: "namespace", Value: ""}, {Name: "subject", Value: "ä %"},
	}}
	for range 2 { // the second time names are known
		r := &kafka.Record{Offset: 6, Value: []byte("{}"), Time: time.Unix(1, 0)}
		for _, h := range n.headers(nil, m) {
			r.Headers = append(r.Headers, kafka.Header{Name: h.Name, Value: []byte(h.Value)})
		}
		st := Decode(3, r, true)
		want := []sink.Attribute{{Name: "id", Value: "u.7"}, {Name: "subject", Value: "ä %"}, {Name: "datacontenttype", Value: "application/json"}}
		if st.ID != "u.7" || st.Sequence != 7 || st.Partition != 3 || !slices.Equal(st.Attributes, want) || string(st.Data) != "{}" || !st.Time.Equal(r.Time) {
			t.Errorf("%+v", st)
		}
		assert.Nil(t, Decode(3, r, false).Data, "data that nobody asked for")
	}
}

func TestDecode_finds_the_id_of_a_structured_event_and_of_nothing_else(t *testing.T) {
	for event, want := range map[string]string{
		`{"id":"a"}`: "a", `{"data":{"id":"b","x":[1,{"id":"c"}]},"id":"a\u0041"}`: "aA", `{"data":{"id":"b"}}`: "", `{"id":7}`: "", `[]`: "", ``: "", `{"id":`: "", `{"id"`: "",
		`{"x":`: "",
	} {
		r := &kafka.Record{Value: []byte(event), Headers: []kafka.Header{{Name: "content-type", Value: []byte("application/cloudevents+json; charset=UTF-8")}}}
		if st := Decode(0, r, false); st.ID != want || len(st.Attributes) != 0 || string(st.Data) != event {
			t.Errorf("%s: %+v", event, st)
		}
	}
	other := Decode(0, &kafka.Record{Value: []byte("x"), Headers: []kafka.Header{{Name: "trace", Value: []byte("1")}}}, false)
	assert.Empty(t, other.ID, "somebody else's record: %+v", other)
	assert.Empty(t, other.Attributes, "somebody else's record: %+v", other)
}
