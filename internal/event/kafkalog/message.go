// SPDX-License-Identifier: Apache-2.0

package kafkalog

import (
	"fmt"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	sinkkafka "github.com/kube-eventbridge/kube-eventbridge/sink/kafka"
)

// item is a record that is to be handed over.
type item struct {
	event.Message
	key string
	// barrier says that a writer left it for other writers, everywhere that it is a marker, which is in each partition
	// of its topic.
	barrier, everywhere bool
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

// convert returns what a record says.
func convert(topic string, partition int32, r *kafka.Record) item {
	return item{
		Message: event.Message{
			Stored: *sinkkafka.Decode(partition, r, true), Subject: topic,
			Place: fmt.Sprintf("%d/%d", partition, r.Offset),
		},
		key: string(r.Key), barrier: sinkkafka.IsBarrier(r), everywhere: sinkkafka.IsMarker(r),
	}
}

// marker returns what a marker is recognised by in another partition of its topic; empty for everything else.
func (it *item) marker() string {
	if !it.everywhere {
		return ""
	}
	e, err := event.Decode(it.Message)
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
