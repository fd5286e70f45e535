// SPDX-License-Identifier: Apache-2.0

package asyncapi

import (
	"regexp"
	"slices"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
)

// typeStarted is the type of what a writer begins with in each partition of its Kafka topics.
const typeStarted = "io.kube-eventbridge.writer.started.v1"

const (
	binaryContent     = "application/json"
	structuredContent = "application/cloudevents+json"
)

// kind is a type of event.
type kind struct {
	op, typ, says string
	// data is the schema of its data; empty: that of the resource's payload.
	data string
	// change: it is one of an object, of an operation that may be left out.
	change bool
	// marker: it is about a stream, not about an object.
	marker bool
}

func kinds() []kind {
	return []kind{
		{op: "added", change: true, typ: encode.TypeAdded, says: "An object is new to the stream."},
		{op: "updated", change: true, typ: encode.TypeUpdated, says: "An object that the stream knew has changed."},
		{
			op: "deleted", change: true, typ: encode.TypeDeleted,
			says: "An object is gone, or has left the selection. The data is its last state, as far as it is known.",
		},
		{
			op: "rejected", typ: encode.TypeRejected, says: "The broker refused an event for good; this stands in its place.",
			data: "rejected",
		},
		{
			op: "gap", typ: encode.TypeGap,
			says: "Between two versions changes may have happened that are not known any more.", data: "gap", marker: true,
		},
		{
			op: "snapshot-started", typ: encode.TypeSnapshotStarted, says: "What exists at a version follows.",
			data: "snapshotStarted", marker: true,
		},
		{
			op: "snapshot-completed", typ: encode.TypeSnapshotCompleted,
			says: "Everything that existed at a version is in the log.", data: "snapshotCompleted", marker: true,
		},
		{
			op: "resync-started", typ: encode.TypeResyncStarted, data: "resyncStarted", marker: true,
			says: "What exists is published again.",
		},
		{
			op: "resync-completed", typ: encode.TypeResyncCompleted, data: "resyncCompleted", marker: true,
			says: "What exists was published again. If complete, all other objects of the scope are gone.",
		},
	}
}

// describe adds the messages of a resource to its channel.
func (d *document) describe(ch *channel, p *Pipeline, r *Resource) {
	for _, k := range kinds() {
		if k.change && !r.publishes(k.op) {
			continue
		}
		data := []string{k.data}
		if k.data == "" {
			data = schemasOf(payloadsOf(p, r, k))
		}
		k.typ = encode.TypeIn(p.Profile, encode.Payload(r.Payload), k.typ)
		special := object("type", exactly(k.typ), "source", d.sourceIn(p, r, k), "pipeline", exactly(p.Name), "payload",
			payloadOf(p, r, k))
		name := p.Name + "." + r.name() + "." + k.op
		if !k.marker && otherwise(p, r) {
			name += "." + r.Payload
		}
		d.message(ch, p, name, k, special, data)
	}
	if p.Tombstones && r.publishes("deleted") {
		d.tombstone(ch)
	}
	if p.Broker == Kafka {
		k := kind{
			op: "writer-started", typ: typeStarted,
			says:   "A process begins to write to this partition. It is for the bridge itself; consumers pass over it.",
			marker: true,
		}
		special := object("type", exactly(k.typ), "source", d.writer(p), "pipeline", exactly(p.Name), "payload",
			exactly("marker"))
		d.message(ch, p, p.Name+"."+k.op, k, special, []string{"writerStarted"})
	}
}

// payloadOf is the attribute of that name.
func payloadOf(p *Pipeline, r *Resource, k kind) Object {
	switch all := payloadsOf(p, r, k); {
	case k.marker:
		return exactly("marker")
	case len(all) == 1:
		return exactly(all[0])
	default:
		return object("enum", all)
	}
}

// payloadsOf are what the data of an event can be: a patch is one of an update, and where there is none the whole
// object; what is too large has its metadata alone.
func payloadsOf(p *Pipeline, r *Resource, k kind) (all []string) {
	whole := string(encode.Object)
	switch patch := r.Payload == string(encode.MergePatch) || r.Payload == string(encode.JSONPatch); {
	case !k.change || !patch:
		all = []string{r.Payload}
	case k.op == "updated":
		all = []string{r.Payload, whole}
	default:
		all = []string{whole}
	}
	if k.change && p.Reduced && r.Payload != string(encode.Metadata) {
		all = append(all, string(encode.Metadata))
	}
	return all
}

// schemasOf are the schemas of data by their payloads. That of an object is one of its metadata too.
func schemasOf(payloads []string) (names []string) {
	for _, p := range payloads {
		switch encode.Payload(p) {
		case encode.MergePatch:
			p = "mergePatch"
		case encode.JSONPatch:
			p = "jsonPatch"
		case encode.Object, encode.Change: // have the same name
		case encode.Metadata:
			if slices.Contains(payloads, string(encode.Object)) {
				continue
			}
		}
		names = append(names, p)
	}
	return names
}

// schemaOf refers to schemas of data, of which one holds.
func (d *document) schemaOf(names []string) Object {
	var refs []any
	for _, name := range names {
		d.told[name] = true
		refs = append(refs, ref("components/schemas/"+name))
	}
	if d.told["change"] {
		d.told["object"] = true // it refers to that
	}
	if len(names) == 1 {
		return ref("components/schemas/" + names[0])
	}
	return object("anyOf", refs)
}

// sourceIn is the attribute source: in Knative's profile changes have the API server's address, which only a cluster
// knows.
func (d *document) sourceIn(p *Pipeline, r *Resource, k kind) Object {
	if k.change && p.Profile == encode.Knative {
		return object("pattern", "^https?://")
	}
	return d.source(r)
}

// otherwise reports whether a pipeline publishes a resource also with another payload, from other namespaces.
func otherwise(p *Pipeline, r *Resource) bool {
	return slices.ContainsFunc(p.Resources, func(o Resource) bool {
		return o.name() == r.name() &&
			o.Payload != r.Payload
	})
}

// message adds one, unless it is there. Special are the attributes that are more special than for others.
func (d *document) message(ch *channel, p *Pipeline, name string, k kind, special Object, data []string) {
	if slices.Contains(ch.messages, name) {
		return
	}
	ch.messages = append(ch.messages, name)
	if d.cfg.Cluster != "" {
		special.set("clustername", exactly(d.cfg.Cluster))
	}
	m := object("name", k.typ, "title", name, "summary", k.says)
	if p.Structured {
		m.set("contentType", structuredContent)
		special.set("data", d.schemaOf(data))
		m.set("payload", object("type", "object", "allOf",
			[]any{ref("components/schemas/" + base(k, "structured")), object("properties", special)}))
		d.structured = true
	} else {
		headers := Object{}
		for _, a := range special {
			headers.set(header(p.Broker, a.name), a.value)
		}
		m.set("contentType", binaryContent)
		m.set("headers", object("type", "object", "allOf",
			[]any{ref("components/schemas/" + base(k, string(p.Broker))), object("properties", headers)}))
		m.set("payload", d.schemaOf(data))
		d.binary[p.Broker] = true
	}
	if p.Broker == Kafka {
		d.kafka = true
		m.set("bindings", object("kafka", object("key", ref("components/schemas/partitionkey"), "bindingVersion", "0.5.0")))
	}
	d.messages.set(name, m)
}

// tombstone adds the record behind the deletion of an object.
func (d *document) tombstone(ch *channel) {
	const name = "tombstone"
	d.tombstones = true
	if slices.Contains(ch.messages, name) {
		return
	}
	ch.messages = append(ch.messages, name)
	d.messages.set(name, object("name", name, "title", name, "summary",
		"No event: a record without a value, behind the deletion of the object whose key it has.",
		"payload", ref("components/schemas/tombstone"),
		"bindings", object("kafka", object("key", ref("components/schemas/partitionkey"), "bindingVersion", "0.5.0"))))
}

// base is the name of the schema of what all events have that are about objects, or all markers.
func base(k kind, form string) string {
	if k.marker {
		return form + "Marker"
	}
	return form + "Event"
}

// header is the name of an attribute's.
func header(b Broker, attribute string) string {
	switch {
	case b == NATS:
		return "ce-" + attribute
	case attribute == "datacontenttype":
		return "content-type"
	default:
		return "ce_" + attribute
	}
}

func exactly(text string) Object { return object("const", text) }

// source is the attribute of a resource's events.
func (d *document) source(r *Resource) Object {
	api := "/api/"
	if r.Group != "" {
		api = "/apis/" + r.Group + "/"
	}
	if d.cfg.Cluster != "" && r.Version != "" {
		return exactly("/clusters/" + d.cfg.Cluster + api + r.Version + "/" + r.Plural)
	}
	return object("pattern", "^/clusters/"+orAny(d.cfg.Cluster)+regexp.QuoteMeta(api)+orAny(r.Version)+"/"+r.Plural+"$")
}

// writer is that of what a writer says of itself.
func (d *document) writer(p *Pipeline) Object {
	if d.cfg.Cluster != "" {
		return exactly("/clusters/" + d.cfg.Cluster + "/pipelines/" + p.Name)
	}
	return object("pattern", "^/clusters/"+orAny("")+"/pipelines/"+regexp.QuoteMeta(p.Name)+"$")
}

// orAny is a pattern of a segment of a path that may not be known.
func orAny(segment string) string {
	if segment == "" {
		return "[^/]+"
	}
	return regexp.QuoteMeta(segment)
}
