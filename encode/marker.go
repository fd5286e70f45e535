// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"fmt"
	"strconv"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// Marker fills m with the event of k.
func (e *envelope) Marker(m *sink.Message, k source.Marker) {
	typ, id, name := e.markerOf(k)
	key := e.keyPrefix + "_/" + name
	*m = sink.Message{
		Attributes: m.Attributes, Data: m.Data,
		ID: e.idPrefix + id, Key: key, Subject: e.subject.marker(name),
		Shared: e.shared, Everywhere: true,
	}
	seen := string(appendMilliseconds(nil, k.Seen))
	as := append(attributes(m.Attributes[:0]), e.marker.attributes...)
	as.add("type", typ)
	as.add("id", id)
	as.add("time", seen)
	as.add("recordedtime", seen)
	as.add("resourceversion", k.To)
	as.add("partitionkey", key)
	e.fill(m, &e.marker, as)
	m.Data = e.appendMarkerData(m.Data, k)
	e.end(m)
}

// MarkerID returns the id of the message that Marker fills for k.
func (e *envelope) MarkerID(k source.Marker) string {
	_, id, _ := e.markerOf(k)
	return e.idPrefix + id
}

func (e *envelope) markerOf(k source.Marker) (typ, id, name string) {
	in := "." + e.scope + "." + strconv.FormatUint(k.Epoch, 10) + "."
	number := strconv.FormatInt(k.Number, 10)
	switch k.Kind {
	case source.MarkerGap:
		return TypeGap, "gap" + in + k.From + "-" + k.To, "_gap"
	case source.MarkerSnapshotStarted:
		return TypeSnapshotStarted, "snapshot-started" + in + k.To, "_snapshot"
	case source.MarkerSnapshotCompleted:
		return TypeSnapshotCompleted, "snapshot-completed" + in + k.To, "_snapshot"
	case source.MarkerResyncStarted:
		return TypeResyncStarted, "resync-started" + in + number, "_resync"
	case source.MarkerResyncCompleted:
		return TypeResyncCompleted, "resync-completed" + in + number, "_resync"
	default:
		panic(fmt.Sprintf("BUG: marker kind %d", k.Kind))
	}
}

func (e *envelope) appendMarkerData(d []byte, k source.Marker) []byte {
	d = jsonscan.AppendQuoted(append(d, `{"namespace":`...), e.stream.Namespace)
	d = jsonscan.AppendQuoted(append(d, `,"labelSelector":`...), e.stream.LabelSelector)
	d = jsonscan.AppendQuoted(append(d, `,"fieldSelector":`...), e.stream.FieldSelector)
	d = fmt.Appendf(d, `,"epoch":%d`, k.Epoch)
	switch k.Kind {
	case source.MarkerGap:
		d = jsonscan.AppendQuoted(append(d, `,"from":`...), k.From)
		d = jsonscan.AppendQuoted(append(d, `,"to":`...), k.To)
		d = jsonscan.AppendQuoted(append(d, `,"cause":`...), string(k.Cause))
		d = jsonscan.AppendQuoted(append(d, `,"message":`...), k.Message)
	case source.MarkerSnapshotStarted, source.MarkerSnapshotCompleted:
		d = jsonscan.AppendQuoted(append(d, `,"resourceVersion":`...), k.To)
	case source.MarkerResyncStarted, source.MarkerResyncCompleted:
		d = fmt.Appendf(d, `,"n":%d`, k.Number)
	}
	if k.Kind == source.MarkerSnapshotCompleted || k.Kind == source.MarkerResyncCompleted {
		d = fmt.Appendf(d, `,"objects":%d`, k.Objects)
	}
	if k.Kind == source.MarkerResyncCompleted {
		d = fmt.Appendf(d, `,"complete":%t`, k.Complete)
	}
	return append(d, '}')
}
