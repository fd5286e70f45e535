// SPDX-License-Identifier: Apache-2.0

package kafkalog

import (
	"fmt"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/tail"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// item is a record that is to be handed over.
type item struct {
	tail.Message
	key string
}

// overhead is at least what an item costs beside its texts.
const overhead = 256

func (it *item) size() int {
	n := len(it.key) + len(it.Data) + overhead
	for _, a := range it.Attributes {
		n += len(a.Name) + len(a.Value) + 32
	}
	return n
}

func (it *item) offset() int64 { return int64(it.Sequence) - 1 } //nolint:gosec // it came from an offset

// convert returns what a record says. In binary mode its attributes are headers, whose names some clients write with capitals.
func convert(topic string, partition int32, r *kafka.Record) item {
	it := item{Message: tail.Message{Subject: topic, Place: fmt.Sprintf("%d/%d", partition, r.Offset)}, key: string(r.Key)}
	it.Sequence, it.Partition, it.Time, it.Data = uint64(r.Offset)+1, partition, r.Time, r.Value //nolint:gosec // offsets are not negative
	for _, h := range r.Headers {
		name := strings.ToLower(h.Name)
		attribute, is := strings.CutPrefix(name, "ce_")
		switch {
		case name == "content-type":
			it.ContentType = string(h.Value)
		case is:
			it.Attributes = append(it.Attributes, sink.Attribute{Name: attribute, Value: string(h.Value)})
		}
		if is && attribute == "id" {
			it.ID = string(h.Value)
		}
	}
	if it.ContentType != "" && len(it.Attributes) > 0 {
		it.Attributes = append(it.Attributes, sink.Attribute{Name: "datacontenttype", Value: it.ContentType})
	}
	return it
}

// barrier reports whether a writer left the record for other writers: it tells nothing of a cluster.
func (it *item) barrier() bool { return strings.HasSuffix(it.key, "/_/_/_/_writer") }

// marker returns what a marker is recognised by in another partition of its topic; empty for everything else.
func (it *item) marker() string {
	if !strings.HasSuffix(it.key, "/_/_gap") && !strings.HasSuffix(it.key, "/_/_snapshot") {
		return ""
	}
	e, err := tail.Decode(it.Message)
	if err != nil || !e.Op.Marker() {
		return ""
	}
	return strings.Join([]string{it.Subject, e.Attr("pipeline"), e.Attr("source"), e.Attr("id")}, "\x00")
}

// maxMarkers is how many markers are remembered; those of a topic's partitions come close to each other.
const maxMarkers = 4096

// markers remembers in which partition a marker was met first.
type markers struct {
	first map[string]int32
	order []string
}

// repeated reports whether the item is a marker that another partition had already.
func (m *markers) repeated(it *item) bool {
	id := it.marker()
	if id == "" {
		return false
	}
	first, known := m.first[id]
	if known {
		return first != it.Partition
	}
	if len(m.order) == maxMarkers {
		delete(m.first, m.order[0])
		m.order = m.order[1:]
	}
	if m.first == nil {
		m.first = make(map[string]int32)
	}
	m.first[id] = it.Partition
	m.order = append(m.order, id)
	return false
}
