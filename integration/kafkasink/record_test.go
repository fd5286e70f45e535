// SPDX-License-Identifier: Apache-2.0

package kafkasink

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/sink/kafka"
)

// text writes a record with all its bytes.
func (r *record) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "key %q", r.Key)
	for _, h := range r.Headers {
		fmt.Fprintf(&b, "\n%s: %q", h.Name, h.Value)
	}
	if r.Value == nil {
		return b.String() + "\nnull"
	}
	fmt.Fprintf(&b, "\n%q", r.Value)
	return b.String()
}

// others leaves out what the sink itself wrote.
func others(all []record) []record {
	return slices.DeleteFunc(all, func(r record) bool { return r.own() })
}

func TestSink_writes_the_binding_byte_for_byte(t *testing.T) {
	t.Parallel()
	r := newTopic(t, shared.ForTest(t), 1, nil)
	s := start(t, r.config(direct))
	publish(t, s, &sink.Message{
		Subject: r.topic, Key: "prod/core/pods/default/web-0", ID: "u.7", ContentType: "application/json",
		Data: []byte(`{"a":"ä"}`),
		Attributes: []sink.Attribute{
			{Name: "specversion", Value: "1.0"},
			{Name: "type", Value: "t"},
			{Name: "source", Value: "/clusters/prod/api/v1/pods"},
			{Name: "id", Value: "u.7"},
			{Name: "datacontenttype", Value: "application/json"},
			{Name: "namespace", Value: ""},
			{Name: "subject", Value: `50% "of" ä`},
		},
	})
	publish(t, s, &sink.Message{
		Subject: r.topic, Key: "prod/core/pods/default/web-0", ID: "u.8", ContentType: "application/cloudevents+json",
		Data: []byte(`{"id":"u.8"}`),
	})
	got := others(r.records(t, r.topic))
	want := []string{
		`key "prod/core/pods/default/web-0"
content-type: "application/json"
ce_specversion: "1.0"
ce_type: "t"
ce_source: "/clusters/prod/api/v1/pods"
ce_id: "u.7"
ce_subject: "50% \"of\" ä"
"{\"a\":\"ä\"}"`,
		`key "prod/core/pods/default/web-0"
content-type: "application/cloudevents+json"
"{\"id\":\"u.8\"}"`,
	}
	for i := range got {
		assert.Equal(t, want[i], got[i].text())
	}
	assert.Len(t, got, len(want), "records")
}

func TestSink_announces_itself_in_each_partition_first(t *testing.T) {
	t.Parallel()
	for _, structured := range []bool{false, true} {
		r := newTopic(t, shared.ForTest(t), 3, nil)
		cfg := r.config(direct)
		cfg.Structured = structured
		cfg.Epoch = func() uint64 { return 1_700_000_000 }
		s := start(t, cfg)
		for n := range 30 {
			publish(t, s, message(r.topic, fmt.Sprintf("key-%d", n), 1))
		}
		first := map[int32]record{}
		for _, rec := range r.records(t, r.topic) {
			if _, known := first[rec.partition]; !known {
				first[rec.partition] = rec
			}
		}
		for p := range int32(3) {
			rec := first[p]
			assert.Equal(t, "test/_/_/_/_writer."+cfg.Pipeline, string(rec.Key),
				"the first record of partition %d is %s", p, rec.text())
			if p == 0 {
				t.Log(rec.text())
			}
			if structured && !strings.Contains(string(rec.Value), `"type":"io.kube-eventbridge.writer.started.v1"`) ||
				!structured && rec.header("ce_type") != "io.kube-eventbridge.writer.started.v1" {
				t.Errorf("it is %s", rec.text())
			}
			id := rec.header("ce_id")
			if structured {
				id = structuredID.FindStringSubmatch(string(rec.Value))[1]
			}
			st, err := s.At(t.Context(), p, 1)
			assert.True(t, err == nil && st != nil && st.ID == id && st.Epoch == 1_700_000_000,
				"At: %+v, %v, want %s", st, err, id)
		}
	}
}

// kgo's partitioner for keys is one that others have compared with Java's.
func TestSink_puts_a_key_where_other_clients_do(t *testing.T) {
	t.Parallel()
	const partitions = 7
	r := newTopic(t, shared.ForTest(t), partitions, nil)
	s := start(t, r.config(direct))
	choose := kgo.StickyKeyPartitioner(nil).ForTopic(r.topic)
	for n := range 200 {
		key := fmt.Sprintf("prod/core/pods/default/%s-%d", strings.Repeat("ä", n%5), n)
		want := choose.Partition(&kgo.Record{Key: []byte(key)}, partitions)
		got := publish(t, s, message(r.topic, key, 1)).Partition
		assert.Equal(t, want, int(got), "%s is in %d, and kgo puts it into", key, got)
	}
}

func TestSink_adds_tombstones_and_marks_every_partition(t *testing.T) {
	t.Parallel()
	r := newTopic(t, shared.ForTest(t), 3, nil)
	cfg := r.config(direct)
	cfg.Tombstones = true
	s := start(t, cfg)
	publish(t, s, message(r.topic, "a", 1))
	gone := message(r.topic, "a", 2)
	gone.Last = true
	at := publish(t, s, gone)
	again := publish(t, s, message(r.topic, "a", 3))
	assert.True(t, again.Partition == at.Partition && again.Sequence == at.Sequence+2,
		"deleted at %+v, made again at %+v: the tombstone is between", at, again)
	marker := everywhere(r.topic, 1)
	mine := publish(t, s, marker)
	assert.Equal(t, batch.Partition(marker.Key, 3), mine.Partition, "the marker's receipt is %+v", mine)
	var a []string
	markers := map[int32]int{}
	for _, rec := range others(r.records(t, r.topic)) {
		switch {
		case string(rec.Key) == marker.Key:
			markers[rec.partition]++
		case rec.Value == nil && len(rec.Headers) > 0:
			t.Errorf("a tombstone with headers: %s", rec.text())
		case rec.Value == nil:
			a = append(a, string(rec.Key)+" null")
		default:
			a = append(a, rec.header("ce_id"))
		}
	}
	assert.True(t, fmt.Sprint(a) == "[a.1 a.2 a null a.3]" && len(markers) == 3 &&
		markers[0]*markers[1]*markers[2] == 1, "the log has %v, markers %v", a, markers)
	n := 0
	require.NoError(t, s.Read(t.Context(), sink.Query{}, func(st *sink.Stored) error {
		if !strings.HasPrefix(st.ID, "writer-started.") {
			n++
		}
		return nil
	}))
	assert.Equal(t, 3+1, n, "messages are read back, want 3, and the marker")
	st, err := s.At(t.Context(), at.Partition, at.Sequence+1)
	assert.True(t, st == nil && err == nil, "where the tombstone is: %+v, %v", st, err)
}

func TestSink_publishes_to_several_topics(t *testing.T) {
	t.Parallel()
	c := shared.ForTest(t)
	prefix := name(t)
	r := &testTopic{c, prefix}
	require.NoError(t, c.CreateTopic(t.Context(), prefix+".pods", 2, 0, nil))
	require.NoError(t, c.CreateTopic(t.Context(), prefix+".nodes", 3, 0, nil))
	cfg := r.config(direct)
	cfg.Topic = prefix + ".{resource}"
	cfg.Create = &kafka.Create{Partitions: 4}
	s := start(t, cfg)
	places := map[int32]string{}
	var receipts []sink.Receipt
	for n := range 60 {
		topic := prefix + []string{".pods", ".nodes", ".later"}[n%3]
		rc := publish(t, s, message(topic, fmt.Sprintf("key-%d", n), 1))
		other := places[rc.Partition]
		assert.True(t, other == "" || other == topic, "partition %d is of %s and of %s", rc.Partition, other, topic)
		places[rc.Partition] = topic
		receipts = append(receipts, rc)
	}
	a := wait(t, send(t, s, message("elsewhere", "k", 1)))
	assert.True(t, sink.IsPermanent(a.err), "a topic that is not configured: %v", a.err)
	for topic, want := range map[string]int{".pods": 20, ".nodes": 20, ".later": 20} {
		n := len(others(r.records(t, prefix+topic)))
		assert.Equal(t, want, n, "%s has %d records", topic, n)
	}
	bounds := must.Get(s.Bounds(t.Context(), nil))(t)
	assert.Len(t, bounds.Partitions, 2+3+4, "partitions")
	for n, rc := range receipts {
		st := must.Get(s.At(t.Context(), rc.Partition, rc.Sequence))(t)
		assert.True(t, st != nil && st.ID == fmt.Sprintf("key-%d.1", n), "at %+v: %+v", rc, st)
	}
	s.stop()
	require.NoError(t, s.end(t))
	again := start(t, cfg)
	n := 0
	require.NoError(t, again.Read(t.Context(), sink.Query{}, func(st *sink.Stored) error {
		if !strings.HasPrefix(st.ID, "writer-started.") {
			assert.NotEmpty(t, places[st.Partition], "%s is in partition %d now", st.ID, st.Partition)
			n++
		}
		return nil
	}))
	assert.Equal(t, 60, n, "messages are read back")
}
