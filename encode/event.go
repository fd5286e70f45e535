// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// The types of events.
const (
	TypeAdded    = "io.kube-eventbridge.resource.added.v1"
	TypeUpdated  = "io.kube-eventbridge.resource.updated.v1"
	TypeDeleted  = "io.kube-eventbridge.resource.deleted.v1"
	TypeRejected = "io.kube-eventbridge.resource.rejected.v1"

	TypeGap               = "io.kube-eventbridge.stream.gap.v1"
	TypeSnapshotStarted   = "io.kube-eventbridge.stream.snapshot-started.v1"
	TypeSnapshotCompleted = "io.kube-eventbridge.stream.snapshot-completed.v1"
	TypeResyncStarted     = "io.kube-eventbridge.stream.resync-started.v1"
	TypeResyncCompleted   = "io.kube-eventbridge.stream.resync-completed.v1"
)

const (
	contentJSON       = "application/json"
	contentStructured = "application/cloudevents+json"
)

func typeOf(op source.Op) string {
	switch op {
	case source.Added:
		return TypeAdded
	case source.Updated:
		return TypeUpdated
	case source.Deleted:
		return TypeDeleted
	default:
		panic("BUG: operation " + op.String())
	}
}

func groupOr(group string) string {
	if group == "" {
		return "core"
	}
	return group
}

func sourceOf(cluster string, r source.Resource) string {
	if r.Group == "" {
		return "/clusters/" + cluster + "/api/" + r.Version + "/" + r.Resource
	}
	return "/clusters/" + cluster + "/apis/" + r.Group + "/" + r.Version + "/" + r.Resource
}

// messageIDPrefix tells events of the same id apart in a log that pipelines share.
func messageIDPrefix(pipeline, src string) string {
	return hashOf(pipeline+"\x00"+src) + "."
}

// hashOf returns the 16 hex digits of the FNV-1a-64 of a text.
func hashOf(text string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return fmt.Sprintf("%016x", h.Sum64())
}

// head is what the events of a stream have in common: as attributes, and as the beginning of a structured event.
type head struct {
	attributes attributes
	json       []byte
}

func newHead(as attributes) head {
	return head{attributes: as, json: appendMembers([]byte("{"), as)}
}

// heads returns what changes and what markers have in common.
func (e *envelope) heads(src string) (change, marker head) {
	var as attributes
	as.add("specversion", "1.0")
	as.add("source", src)
	as.add("datacontenttype", contentJSON)
	as.add("pipeline", e.cfg.Pipeline)
	as.add("clustername", e.cfg.Cluster)
	as.add("apiversion", e.stream.APIVersion())
	as.add("kind", e.stream.Kind)
	markers := slices.Clone(as)
	markers.add("payload", "marker")
	as.add("resource", e.stream.Resource.Resource)
	as.add("payload", string(e.cfg.Payload))
	if e.cfg.WriterTerm > 0 {
		as.add("writerterm", int32s(e.cfg.WriterTerm))
	}
	return newHead(as), newHead(markers)
}

// kind is what an event is: its type, what its id ends in, the version that it applies to, if it applies to one, and
// whether its data have a value that was replaced.
type kind struct {
	typ, tail, base string
	redacted        bool
}

// begin fills m up to its data.
func (e *envelope) begin(m *sink.Message, c *source.Change, w *walk, k kind) {
	t := e.texts(c, w, k.tail)
	*m = sink.Message{
		Attributes: m.Attributes, Data: m.Data,
		ID: t.id, Key: t.key, Subject: t.subject, Shared: e.shared, Last: c.Op == source.Deleted,
	}
	name := t.key[len(e.keyPrefix):]
	if c.Namespace == "" {
		name = c.Name
	}
	h := &e.change
	if n := e.knative; n != nil && k.typ != TypeRejected {
		h, name = &n.change, t.link
	}
	as := attributes(m.Attributes[:0])
	as = append(as, h.attributes...)
	as.add("type", k.typ)
	as.add("id", t.id[len(e.idPrefix):])
	as.add("subject", name)
	as.add("time", t.time)
	as.add("recordedtime", t.recorded)
	as.add("namespace", c.Namespace)
	as.add("name", c.Name)
	as.add("objectuid", c.UID)
	as.add("resourceversion", c.ResourceVersion)
	as.add("sequence", t.sequence)
	as.add("partitionkey", t.key)
	as.add("reason", string(c.Reason))
	as.add("fieldmanager", t.manager)
	if c.Count > 1 {
		as.add("sampledrate", int32s(c.Count))
	}
	as.add("baseversion", k.base)
	if k.redacted {
		as.add("redacted", "true")
	}
	as = append(as, e.extra...)
	e.fill(m, h, as)
}

// texts are the strings of one message that are not in its change.
type texts struct{ id, key, subject, sequence, recorded, time, manager, link string }

// texts builds the strings next to each other, so that they are allocated as one.
func (e *envelope) texts(c *source.Change, w *walk, tail string) texts {
	var stack [512]byte
	b := e.appendID(stack[:0], c, tail)
	id := len(b)
	b = appendStrings(b, e.keyPrefix, either(c.Namespace, "_"), "/", c.Name)
	key := len(b)
	b = e.subject.append(b, c.Namespace, c.Name)
	subject := len(b)
	b = sequenceOf(c).Append(b)
	ordered := len(b)
	b = appendMilliseconds(b, c.Seen)
	seen := len(b)
	b = w.appendTime(b, c)
	changed := len(b)
	b = w.appendManager(b, c)
	manager := len(b)
	if e.knative != nil {
		b = e.knative.appendSubject(b, c)
	}
	s := string(b)
	return texts{
		id: s[:id], key: s[id:key], subject: either(s[key:subject], e.subject.constant), sequence: s[subject:ordered],
		recorded: s[ordered:seen], time: either(s[seen:changed], s[ordered:seen]), manager: s[changed:manager],
		link: s[manager:],
	}
}

// fill sets what differs between the modes. as begins with the attributes of h. In structured mode m.Data then ends
// where the value of the member data belongs.
func (e *envelope) fill(m *sink.Message, h *head, as attributes) {
	m.ContentType, m.Attributes, m.Data = contentJSON, as, m.Data[:0]
	if e.cfg.Mode == Structured {
		m.ContentType, m.Attributes = contentStructured, as[:0]
		m.Data = appendMembers(append(m.Data, h.json...), as[len(h.attributes):])
		m.Data = append(m.Data, `,"data":`...)
	}
}

func (e *envelope) end(m *sink.Message) {
	if e.cfg.Mode == Structured {
		m.Data = append(m.Data, '}')
	}
}

// appendID appends a message's id. An object without a uid has a hash of its partition key instead.
func (e *envelope) appendID(b []byte, c *source.Change, tail string) []byte {
	uid := c.UID
	if uid == "" {
		uid = hashOf(e.keyPrefix + either(c.Namespace, "_") + "/" + c.Name)
	}
	b = sequenceOf(c).AppendID(append(b, e.idPrefix...), uid)
	if c.Again != 0 {
		b = strconv.AppendInt(append(b, ".r"...), c.Again, 10)
	}
	return append(b, tail...)
}

// sequenceOf returns the sequence of a change's event.
func sequenceOf(c *source.Change) sequence.Sequence {
	s := sequence.Sequence{Epoch: c.Epoch, Version: c.Version, Step: sequence.State}
	if c.Op == source.Deleted {
		s.Step = sequence.End
	}
	return s
}

// appendMilliseconds appends t as RFC 3339 in UTC. Every SDK keeps milliseconds, and latencies are computed from them.
func appendMilliseconds(b []byte, t time.Time) []byte {
	t = t.UTC()
	b = t.AppendFormat(b, time.RFC3339) // several times as fast as a layout with a fraction
	ms := t.Nanosecond() / int(time.Millisecond)
	return append(b[:len(b)-1], '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
}

func appendStrings(b []byte, parts ...string) []byte {
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

func either(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

type attributes []sink.Attribute

// add leaves out what is empty: some SDKs refuse an event with an empty attribute.
func (as *attributes) add(name, value string) {
	if value != "" {
		*as = append(*as, sink.Attribute{Name: name, Value: value})
	}
}

// appendMembers appends attributes as members of an object that has been opened.
func appendMembers(dst []byte, as []sink.Attribute) []byte {
	for _, a := range as {
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), a.Name...), `":`...)
		if a.Integer() {
			dst = append(dst, a.Value...)
		} else {
			dst = jsonscan.AppendQuoted(dst, a.Value)
		}
	}
	return dst
}
