// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	produceapi "github.com/segmentio/kafka-go/protocol/produce"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// parcelWith returns a sealed batch with one record.
func parcelWith(topic string, partition int32, value string) *parcel {
	var b batch.Builder
	b.Append(&batch.Record{Key: "k", Value: []byte(value), Timestamp: 1}, batch.DefaultLimit)
	b.Seal(1, 2, 3)
	return &parcel{place: place{topic, partition}, data: b.Addressed(partition)}
}

// wireOf is a connection on which an answer waits.
type wireOf struct {
	bytes.Buffer
	answer io.Reader
}

func (w *wireOf) Read(p []byte) (int, error) { return w.answer.Read(p) }

// The library's own reader is the judge of what is written.
func TestProduce_request_has_each_batch_once_by_topic(t *testing.T) {
	load := []*parcel{parcelWith("b", 1, "b1"), parcelWith("a", 7, "a7"), parcelWith("b", 0, "b0")}
	for version := int16(oldestProduce); version <= newestProduce; version++ {
		r := &produce{client: "me", timeout: 5 * time.Second, load: load}
		r.Required(map[protocol.ApiKey]int16{protocol.Produce: version})
		var answer bytes.Buffer
		if err := protocol.WriteResponse(&answer, version, 0, &produceapi.Response{Topics: []produceapi.ResponseTopic{
			{Topic: "a", Partitions: []produceapi.ResponsePartition{{Partition: 7, BaseOffset: 70}}},
			{Topic: "b", Partitions: []produceapi.ResponsePartition{{
				Partition: 0,
				ErrorCode: int16(kafkago.NotLeaderForPartition), BaseOffset: -1,
			}, {Partition: 1, BaseOffset: 11}}},
		}}); err != nil {
			t.Fatal(err)
		}
		w := &wireOf{answer: &answer}
		must.Get(r.RawExchange(w))(t)
		if d := r.deliveries; d[0] != (delivery{offset: 11}) || d[1] != (delivery{offset: 70}) ||
			!errors.Is(d[2].err, kafkago.NotLeaderForPartition) {
			t.Errorf("version %d: %+v", version, d)
		}
		checkRequest(t, w, version)
	}
}

func checkRequest(t *testing.T, w *wireOf, version int16) {
	t.Helper()
	v, _, client, m, err := protocol.ReadRequest(&w.Buffer)
	require.True(t, err == nil && v == version && client == "me" && w.Len() == 0,
		"version %d, client %q, %d bytes behind: %v", v, client, w.Len(), err)
	got := m.(*produceapi.Request)
	assert.True(t, got.Acks == -1 && got.Timeout == 5000 && got.TransactionalID == "",
		"acks %d, timeout %d, transaction %q", got.Acks, got.Timeout, got.TransactionalID)
	var found []string
	for _, topic := range got.Topics {
		for _, p := range topic.Partitions {
			rec := must.Get(p.RecordSet.Records.ReadRecord())(t)
			value, _ := protocol.ReadAll(rec.Value)
			found = append(found, place{topic.Topic, p.Partition}.String()+"="+string(value))
		}
	}
	assert.Equal(t, "a/7=a7 b/1=b1 b/0=b0", strings.Join(found, " "))
}

func TestProduce_takes_no_silence_for_an_answer(t *testing.T) {
	r := &produce{load: []*parcel{parcelWith("a", 0, ""), parcelWith("a", 1, "")}}
	r.read(&produceapi.Response{Topics: []produceapi.ResponseTopic{{Topic: "a", Partitions: []produceapi.ResponsePartition{
		{Partition: 1, ErrorCode: int16(kafkago.InvalidRecord), ErrorMessage: "no key"},
	}}}})
	if d := r.deliveries; !errors.Is(d[0].err, errMissing) || !errors.Is(d[1].err, kafkago.InvalidRecord) ||
		!strings.Contains(d[1].err.Error(), "no key") {
		t.Errorf("%+v", d)
	}
}

func TestProduce_names_what_it_needs(t *testing.T) {
	r := &produce{load: []*parcel{parcelWith("a", 0, "")}}
	r.Required(map[protocol.ApiKey]int16{protocol.Produce: 2})
	_, err := r.RawExchange(&wireOf{})
	assert.True(t, err != nil && strings.Contains(err.Error(), "those from 3 on are needed"), "got %v", err)
}

func TestProduce_goes_to_the_leader_of_all_its_partitions(t *testing.T) {
	cluster := protocol.Cluster{
		Brokers: map[int32]protocol.Broker{1: {ID: 1}, 2: {ID: 2}},
		Topics: map[string]protocol.Topic{"t": {Name: "t", Partitions: map[int32]protocol.Partition{
			0: {Leader: 1}, 1: {Leader: 1}, 2: {Leader: 2}, 3: {Leader: -1},
		}}},
	}
	for name, c := range map[string]struct {
		partitions []int32
		topic      string
		want       error
	}{
		"one leader":    {[]int32{0, 1}, "t", nil},
		"it has moved":  {[]int32{0, 2}, "t", kafkago.NotLeaderForPartition},
		"no leader":     {[]int32{3}, "t", protocol.ErrNoLeader},
		"no partition":  {[]int32{4}, "t", protocol.ErrNoPartition},
		"unknown topic": {[]int32{0}, "u", protocol.ErrNoTopic},
	} {
		r := &produce{leader: 1}
		for _, n := range c.partitions {
			r.load = append(r.load, &parcel{place: place{c.topic, n}})
		}
		b, err := r.Broker(cluster)
		assert.True(t, errors.Is(err, c.want) && (c.want != nil || err == nil && b.ID == 1),
			"%s: broker %d, %v", name, b.ID, err)
	}
}
