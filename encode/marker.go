// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"fmt"

	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// Marker fills m with the event of k.
func (e *Encoder) Marker(m *sink.Message, k source.Marker) {
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

func (e *Encoder) markerOf(k source.Marker) (typ, id, name string) {
	switch k.Kind {
	case source.MarkerGap:
		return TypeGap, "gap." + e.scope + "." + k.From + "-" + k.To + e.history, "_gap"
	case source.MarkerSnapshotStarted:
		return TypeSnapshotStarted, "snapshot-started." + e.scope + "." + k.To + e.history, "_snapshot"
	case source.MarkerSnapshotCompleted:
		return TypeSnapshotCompleted, "snapshot-completed." + e.scope + "." + k.To + e.history, "_snapshot"
	default:
		panic(fmt.Sprintf("BUG: marker kind %d", k.Kind))
	}
}

func (e *Encoder) appendMarkerData(d []byte, k source.Marker) []byte {
	d = appendQuoted(append(d, `{"namespace":`...), e.stream.Namespace)
	d = appendQuoted(append(d, `,"labelSelector":`...), e.stream.LabelSelector)
	d = appendQuoted(append(d, `,"fieldSelector":`...), e.stream.FieldSelector)
	if k.Kind == source.MarkerGap {
		d = appendQuoted(append(d, `,"from":`...), k.From)
		d = appendQuoted(append(d, `,"to":`...), k.To)
		d = appendQuoted(append(d, `,"reason":`...), k.Cause)
		return append(d, '}')
	}
	d = appendQuoted(append(d, `,"resourceVersion":`...), k.To)
	if k.Kind == source.MarkerSnapshotCompleted {
		d = fmt.Appendf(d, `,"objects":%d`, k.Objects)
	}
	return append(d, '}')
}
